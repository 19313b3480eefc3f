"""PyTorch's side of the comparison: for each operator of the catalogue, a function of its inputs that gives its outputs.

`call` holds the sizes and attributes by name, and the dtypes of the outputs. Functions are written as a PyTorch user
writes them, with the library's own operators where there are any."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

OPERATORS = {}


def peer(*names):
    def register(function):
        for name in names:
            OPERATORS[name] = function
        return function

    return register


def unary(name, function):
    OPERATORS[name] = lambda call, x: function(x)


unary("relu", F.relu)
unary("gelu", F.gelu)
unary("silu", F.silu)
unary("tanh", torch.tanh)
unary("sigmoid", torch.sigmoid)
unary("neg", torch.neg)
unary("exp", torch.exp)
unary("rsqrt", torch.rsqrt)
OPERATORS["copy_"] = lambda call, d, x: d.copy_(x)
OPERATORS["add"] = lambda call, a, b: a + b
OPERATORS["mul"] = lambda call, a, b: a * b
OPERATORS["where_"] = lambda call, c, x, y: torch.where(c, x, y)
OPERATORS["cast"] = lambda call, x: x.to(call.output_dtypes[0])

OPERATORS["softmax"] = lambda call, x: F.softmax(x, -1)
OPERATORS["layernorm"] = lambda call, x, w, b: F.layer_norm(x, (x.shape[-1],), w, b, call.attrs.get("eps", 1e-5))
OPERATORS["rmsnorm"] = lambda call, x, w: F.rms_norm(x, (x.shape[-1],), w, call.attrs.get("eps", 1e-6))
OPERATORS["reduce_sum"] = lambda call, x: x.sum(-1)
OPERATORS["reduce_max"] = lambda call, x: x.amax(-1)
OPERATORS["reduce_mean"] = lambda call, x: x.mean(-1)
OPERATORS["reduce_sum_columns"] = lambda call, x: x.sum(0)
OPERATORS["reduce_max_columns"] = lambda call, x: x.amax(0)
OPERATORS["reduce_mean_columns"] = lambda call, x: x.mean(0)
OPERATORS["argmax"] = lambda call, x: x.argmax(-1)
OPERATORS["topk"] = lambda call, x: torch.topk(x, call.sizes["K"], -1)
OPERATORS["cumsum"] = lambda call, x: torch.cumsum(x, -1)
OPERATORS["transpose"] = lambda call, x: x.t().clone(memory_format=torch.contiguous_format)  # a copy, of one row too
OPERATORS["gather"] = lambda call, x, idx: torch.gather(x, 1, idx)
OPERATORS["scatter"] = lambda call, x, idx, s: torch.scatter(x, 1, idx, s)
OPERATORS["scatter_add"] = lambda call, x, idx, s: torch.scatter_add(x, 1, idx, s)
OPERATORS["embedding"] = lambda call, w, idx: F.embedding(idx, w)
OPERATORS["matmul"] = lambda call, a, b: a @ b
OPERATORS["linear"] = lambda call, x, w: F.linear(x, w)


@peer("rmsnorm_residual")
def rmsnorm_residual(call, x, r, w):
    z = x + r
    return F.rms_norm(z, (z.shape[-1],), w, call.attrs.get("eps", 1e-6)), z


@peer("layernorm_residual")
def layernorm_residual(call, x, r, w, b):
    z = x + r
    return F.layer_norm(z, (z.shape[-1],), w, b, call.attrs.get("eps", 1e-5)), z


@peer("ada_layernorm")
def ada_layernorm(call, x, scale, shift):
    return scale * F.layer_norm(x, (x.shape[-1],), None, None, call.attrs.get("eps", 1e-5)) + shift


@peer("ada_layernorm_zero")
def ada_layernorm_zero(call, x, scale, shift, gate):
    return gate * ada_layernorm(call, x, scale, shift)


@peer("silu_and_mul")
def silu_and_mul(call, x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


@peer("gelu_and_mul")
def gelu_and_mul(call, x):
    gate, up = x.chunk(2, -1)
    return F.gelu(gate) * up


@peer("cross_entropy")
def cross_entropy(call, logits, target):
    return F.cross_entropy(working(logits), target, label_smoothing=call.attrs.get("label_smoothing", 0.0))


@peer("quantize_per_token")
def quantize_per_token(call, x):
    limit = torch.finfo(call.output_dtypes[0]).max if call.output_dtypes[0].is_floating_point else 127
    scale = x.abs().amax(-1).float() / limit
    scale = torch.where(scale == 0, 1.0, scale)
    q = x.float() / scale[:, None]
    return (q if call.output_dtypes[0].is_floating_point else q.round()).to(call.output_dtypes[0]), scale


@peer("dequantize_per_channel")
def dequantize_per_channel(call, q, s, z):
    return ((q.float() - z.float()) * s).to(call.output_dtypes[0])


def working(x):
    """The type that is computed in: f32, as model code does, or f64 for the reference."""
    return x if x.dtype == torch.float64 else x.float()


def rotate_halves(x, cos, sin):
    half = x.shape[-1] // 2
    low, high = working(x[..., :half]), working(x[..., half:])
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(x.dtype)


def rotate_interleaved(x, cos, sin):
    even, odd = working(x[..., 0::2]), working(x[..., 1::2])
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2).to(x.dtype)


def angles(call, q, pos):
    half = q.shape[-1] // 2
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    turns = call.attrs.get("base", 10000.0) ** (-torch.arange(half, device=q.device).to(dtype) / half)
    return pos[:, None].to(dtype) * turns


def rope(name, rotate):
    def from_positions(call, q, k, pos):  # [batch, head, position, element]
        a = angles(call, q, pos)
        cos, sin = a.cos(), a.sin()
        return rotate(q, cos, sin), rotate(k, cos, sin)

    def from_table(call, x, cos, sin):  # [batch, position, head, element]
        return rotate(x, working(cos[:, None]), working(sin[:, None]))

    def from_rows(call, x, cos, sin, pos):  # [position, head, element]
        return rotate(x, working(cos[pos][:, None]), working(sin[pos][:, None]))

    OPERATORS[f"rope_{name}"] = from_positions
    OPERATORS[f"rope_table_{name}"] = from_table
    OPERATORS[f"rope_positions_{name}"] = from_rows


rope("halves", rotate_halves)
rope("interleaved", rotate_interleaved)


@peer("flash_attention", "grouped_query_attention", "cross_attention")
def attention(call, q, k, v):
    """By cuDNN. The expected values, in f64, a head at a time: a whole matrix of scores would not fit."""
    causal = bool(call.attrs.get("causal", False))
    if call.attrs.get("softcap", 0) or any(call.attrs.get(n, -1) >= 0 for n in ("left", "right")):
        raise ValueError("PyTorch's attention has no window and no softcap")
    bias = causal_lower_right(q.shape[2], k.shape[2]) if causal and q.shape[2] != k.shape[2] else None
    if q.dtype == torch.float64:
        return attention_by_heads(q, k, v, causal)
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=bias, is_causal=causal and bias is None, enable_gqa=q.shape[1] != k.shape[1]
        )


def attention_by_heads(q, k, v, causal):
    out = torch.empty_like(q)
    shared = q.shape[1] // k.shape[1]
    s, r = q.shape[2], k.shape[2]
    hidden = torch.ones(s, r, dtype=torch.bool, device=q.device).triu(r - s + 1) if causal else None
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = q[b, h] @ k[b, h // shared].t() / q.shape[3] ** 0.5
            if causal:
                scores.masked_fill_(hidden, -torch.inf)
            out[b, h] = scores.softmax(-1).nan_to_num_(0.0) @ v[b, h // shared]
    return out


@peer("topk_selector")
def topk_selector(call, x, first, end):
    places = torch.arange(x.shape[1], device=x.device)
    inside = (places >= first[:, None]) & (places < end[:, None])
    values, at = torch.topk(x.masked_fill(~inside, float("-inf")), call.sizes["K"], -1)
    return values, at.to(torch.int32)
