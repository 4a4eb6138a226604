"""SEFL's built-in models, the LSTM and the Transformer, as PyTorch modules.

    model = sefl.torch.load("round-12.safetensors", vocabulary="vocab.txt")
    print(model.generate("The", words=30))

The names of the parameters are those of PyTorch's word-language-model example and of SEFL's files.
"""
from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from sefl import safetensors
from sefl.torch import hankel
from sefl.torch.vocabulary import Vocabulary

State = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Config:
    """The shape of a model, from the metadata of its file."""

    body: str
    vocab: int
    embed: int
    hidden: int
    layers: int
    heads: int
    block: int
    block_embed: int
    block_decoder: int
    tied: bool

    @classmethod
    def from_metadata(cls, meta: Mapping[str, str]) -> Config:
        if meta.get("model") not in ("lstm", "transformer"):
            raise ValueError("this file has no built-in model of SEFL")
        block = int(meta["block"])
        return cls(
            meta["model"], *(int(meta[k]) for k in ("vocab", "embed", "hidden", "layers", "heads")),
            block, int(meta.get("block_embed", block)), int(meta.get("block_decoder", block)),
            meta["tied"] == "true",
        )

    def shapes(self) -> dict[str, tuple[tuple[int, ...], int]]:
        """The shape and block size of each parameter, in the order of the model's vector."""
        e, h, l = self.embed, self.hidden, self.block
        out: dict[str, tuple[tuple[int, ...], int]] = {"encoder.weight": ((self.vocab, e), self.block_embed)}
        for i in range(self.layers):
            if self.body == "lstm":
                out[f"rnn.weight_ih_l{i}"] = ((4 * h, e if i == 0 else h), l)
                out[f"rnn.weight_hh_l{i}"] = ((4 * h, h), l)
                out[f"rnn.bias_ih_l{i}"] = out[f"rnn.bias_hh_l{i}"] = ((4 * h,), 1)
                continue
            at = f"transformer_encoder.layers.{i}."
            for name, rows, cols in (("self_attn.in_proj_", 3 * e, e), ("self_attn.out_proj.", e, e),
                                     ("linear1.", h, e), ("linear2.", e, h)):
                out[at + name + "weight"] = ((rows, cols), l)
                out[at + name + "bias"] = ((rows,), 1)
            for norm in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
                out[at + norm] = ((e,), 1)
        if not self.tied:
            width = h if self.body == "lstm" else e
            out["decoder.weight"] = ((self.vocab, width), self.block_decoder)
        out["decoder.bias"] = ((self.vocab,), 1)
        return out


class WordModel(nn.Module):
    """A word-level language model. model(words, state) takes word numbers (steps, batch) and returns
    logits (steps, batch, vocabulary) and the state, which an LSTM carries to the next call.

    A compressed model has the values of its block-Hankel matrices as parameters, and trains as SEFL
    does. Otherwise all matrices are dense. `dropout` applies in training mode."""

    def __init__(
        self, config: Config, vocabulary: Vocabulary | None = None, *, compressed: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.config, self.vocabulary, self.dropout = config, vocabulary, dropout
        self._places: dict[str, str] = {}
        for name, (shape, block) in config.shapes().items():
            if compressed and block > 1 and len(shape) == 2:
                place = f"place_{len(self._places)}"
                self.register_buffer(place, hankel.index(*shape, block), persistent=False)
                self._places[name] = place
                shape = (hankel.count(*shape, block),)
            _put(self, name, nn.Parameter(torch.zeros(shape)))

    # ---- parameters ----

    def weight(self, name: str) -> torch.Tensor:
        """Returns a parameter in dense form."""
        values = self.get_parameter(name)
        return values[self.get_buffer(self._places[name])] if name in self._places else values

    def dense_state(self) -> dict[str, torch.Tensor]:
        """Returns all parameters in dense form, as PyTorch's example and a federation see them."""
        return {name: self.weight(name).detach() for name in self.config.shapes()}

    def load_dense_state(self, values: Mapping[str, torch.Tensor]) -> None:
        """Sets parameters from dense ones; replaces each matrix of a compressed model with the
        nearest block-Hankel one."""
        with torch.no_grad():
            for name, dense in values.items():
                if name in self._places:
                    dense = hankel.project(dense, self.get_buffer(self._places[name]))
                self.get_parameter(name).copy_(dense)

    # ---- the model ----

    def forward(self, words: torch.Tensor, state: State | None = None) -> tuple[torch.Tensor, State | None]:
        x = F.embedding(words, self.weight("encoder.weight"))
        if self.config.body == "lstm":
            x, state = self._lstm(self._drop(x), state)
            x = self._drop(x)
        else:
            x = x * math.sqrt(self.config.embed) + _positions(len(words), self.config.embed).to(x)
            x = self._transformer(self._drop(x))
        decoder = "encoder.weight" if self.config.tied else "decoder.weight"
        return F.linear(x, self.weight(decoder), self.get_parameter("decoder.bias")), state

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, self.dropout, self.training)

    def _lstm(self, x: torch.Tensor, state: State | None) -> tuple[torch.Tensor, State]:
        c = self.config
        if state is None:
            zero = x.new_zeros(c.layers, x.shape[1], c.hidden)
            state = (zero, zero)
        names = (f"rnn.{kind}_l{i}" for i in range(c.layers)
                 for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        weights = [self.weight(name) for name in names]
        out, h, cell = torch._VF.lstm(
            x, state, weights, True, c.layers, self.dropout, self.training, False, False)
        return out, (h, cell)

    def _transformer(self, x: torch.Tensor) -> torch.Tensor:
        e = self.config.embed
        for i in range(self.config.layers):
            def linear(y: torch.Tensor, name: str) -> torch.Tensor:
                return F.linear(y, self.weight(at + name + "weight"), self.get_parameter(at + name + "bias"))

            def norm(y: torch.Tensor, name: str) -> torch.Tensor:
                return F.layer_norm(y, (e,), self.get_parameter(at + name + ".weight"),
                                    self.get_parameter(at + name + ".bias"))

            at = f"transformer_encoder.layers.{i}."
            context = self._attention(linear(x, "self_attn.in_proj_"))
            x = norm(x + self._drop(linear(context, "self_attn.out_proj.")), "norm1")
            inner = self._drop(torch.relu(linear(x, "linear1.")))
            x = norm(x + self._drop(linear(inner, "linear2.")), "norm2")
        return x

    def _attention(self, qkv: torch.Tensor) -> torch.Tensor:
        """Causal attention; qkv is (steps, batch, 3 * embed)."""
        steps, batch, _ = qkv.shape
        heads = self.config.heads
        q, k, v = (y.reshape(steps, batch * heads, -1).transpose(0, 1) for y in qkv.chunk(3, -1))
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        later = torch.ones(steps, steps, dtype=torch.bool, device=qkv.device).triu(1)
        weights = self._drop(scores.masked_fill(later, -math.inf).softmax(-1))
        return (weights @ v).transpose(0, 1).reshape(steps, batch, -1)

    # ---- text ----

    @torch.no_grad()
    def generate(
        self, prompt: str = "<eos>", words: int = 100, *, temperature: float = 1.0,
        window: int = 35, seed: int | None = None,
    ) -> str:
        """Returns `words` words that continue the prompt, without <unk>. A Transformer sees the last
        `window` words."""
        if self.vocabulary is None:
            raise ValueError("load the model with its vocabulary to generate text")
        if not temperature > 0:
            raise ValueError("temperature must be above 0")
        known = self.vocabulary.encode(prompt) or [self.vocabulary.eos]
        device = self.get_parameter("decoder.bias").device
        source = torch.Generator().manual_seed(seed) if seed is not None else None
        training, state, fresh, out = self.training, None, known, []
        self.eval()
        for _ in range(words):
            logits, state = self(torch.tensor(fresh, device=device)[:, None], state)
            chances = (logits[-1, 0].double().cpu() / temperature)
            if self.vocabulary.unk is not None:
                chances[self.vocabulary.unk] = -math.inf
            out.append(int(torch.multinomial(chances.softmax(0), 1, generator=source)))
            fresh = out[-1:] if state is not None else (known + out)[-window:]
        self.train(training)
        return self.vocabulary.decode(out)


def load(
    path: str | os.PathLike[str],
    vocabulary: str | os.PathLike[str] | Vocabulary | None = None,
    *,
    compressed: bool = False,
    dropout: float = 0.0,
) -> WordModel:
    """Loads a built-in model: a model file of SEFL, or one that `sefl model export` wrote.

    vocabulary: the word list or BPE vocabulary, needed for `generate`; ValueError if the model was trained with
    another one. compressed: keeps block-Hankel matrices as their values, to train as SEFL does."""
    tensors, meta = safetensors.read(path)
    if meta.get("sefl") not in ("model 1", "dense 1"):
        raise ValueError(f"{path}: not a model file of SEFL")
    config = Config.from_metadata(meta)
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        vocabulary = Vocabulary.read(vocabulary)
    if vocabulary is not None:
        if len(vocabulary) != config.vocab:
            raise ValueError(f"{path} has {config.vocab} words, the vocabulary {len(vocabulary)}")
        if meta.get("vocab_sha256", "") not in ("", vocabulary.sha256()):
            raise ValueError(f"{path} was trained with another vocabulary")
    model = WordModel(config, vocabulary, compressed=compressed, dropout=dropout)
    model.load_dense_state(_dense(path, tensors, config, meta["sefl"] == "dense 1"))
    return model.eval()


def _dense(
    path: object, tensors: Mapping[str, memoryview], config: Config, is_dense: bool
) -> dict[str, torch.Tensor]:
    out = {}
    for name, (shape, block) in config.shapes().items():
        if name not in tensors:
            raise ValueError(f'{path}: "{name}" is missing')
        values = torch.frombuffer(tensors[name], dtype=torch.float32).view(tensors[name].shape)
        if not torch.isfinite(values).all():
            raise ValueError(f'{path}: "{name}" has values that are not finite')
        packed = not is_dense and block > 1 and len(shape) == 2
        place = hankel.index(*shape, block) if packed else None
        wanted = (int(place[-1, -1]) + 1,) if place is not None else shape
        if tuple(values.shape) != wanted:
            raise ValueError(f'{path}: "{name}" has the shape {tuple(values.shape)}, not {wanted}')
        out[name] = values if place is None else values[place]
    return out


def _positions(steps: int, embed: int) -> torch.Tensor:
    """(steps, 1, embed): sines in even columns, cosines in odd ones."""
    at = torch.arange(steps, dtype=torch.float64)[:, None]
    columns = torch.arange(embed)
    angle = at / 10000.0 ** (2 * (columns // 2).double() / embed)
    return torch.where(columns % 2 == 0, angle.sin(), angle.cos())[:, None]


def _put(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Registers a parameter under a name with dots."""
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]  # type: ignore[assignment]
    module.register_parameter(last, parameter)
