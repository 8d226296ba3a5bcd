"""Loading of checkpoints: device, precision, quantisation, and errors of full memory.

Every backend that loads a checkpoint itself takes the options of :class:`LoadOptions` by keyword. A
profile therefore names them the same way for every role. :meth:`Checkpoint.from_pretrained` is the
main path: it splits the options, loads the network (:func:`load_pretrained`) and the readers of its
inputs (:func:`load_processor`) from the folder of ``hub.local_copy``, and names the model by its
weights (:func:`model_id`). Library errors become one ModelError (:func:`load_errors`).
"""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from struct import error as StructError
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from viper.errors import MemoryFullError, ModelError, ProfileError
from viper.models.hub import Access, local_copy, published_as
from viper.models.libraries import torch, transformers
from viper.models.vision.boxes import require_finite
from viper.models.vision.roles import Floats
from viper.plugins import need_packages

Item = TypeVar("Item")

# Process-wide lock held while a model loads. Model libraries import parts of themselves lazily and
# change global defaults meanwhile, which is not safe in two threads at once.
ONE_AT_A_TIME = threading.RLock()

DTYPES = ("auto", "float32", "float16", "bfloat16")
QUANTIZATIONS = ("8bit", "4bit")

# File of weights of few bits beside a config.json, read where there are no safetensors. Its tensors
# have the names of transformers, not those of llama.cpp, and become floats when loaded.
GGUF = "model.gguf"


@dataclass(frozen=True, kw_only=True)
class LoadOptions(Access):
    """Options for loading a checkpoint, beside those of downloads.

    Attributes:
        device: torch device; ``auto`` takes the first accelerator, else the processor.
        dtype: ``auto`` is float32 on a processor and the checkpoint's own elsewhere.
        device_map: spread one model over devices (``auto``); needs ``accelerate``.
        quantize: ``8bit`` or ``4bit`` weights; needs ``bitsandbytes``.
    """

    device: str = "auto"
    dtype: str = "auto"
    device_map: str | None = None
    quantize: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.trust, str) or not all(isinstance(name, str) for name in self.trust):
            raise ProfileError(f"trust is a list of models, not {self.trust!r}")
        object.__setattr__(self, "trust", tuple(self.trust))  # hashable
        if self.dtype not in DTYPES:
            raise ProfileError(f"dtype {self.dtype!r} is not known; known: {', '.join(DTYPES)}")
        if self.quantize not in (None, *QUANTIZATIONS):
            raise ProfileError(
                f"quantize {self.quantize!r} is not known; known: {', '.join(QUANTIZATIONS)}"
            )

    def resolved_device(self) -> str:
        """Return the device by its torch name.

        Raises:
            ModelError: torch does not see the device here.
        """
        # Called only when needed: asking for a GPU starts its driver, even if the device is "cpu".
        cuda, mps = torch.cuda.is_available, torch.backends.mps.is_available
        if self.device == "auto":
            return "cuda" if cuda() else "mps" if mps() else "cpu"
        if (self.device.startswith("cuda") and not cuda()) or (self.device == "mps" and not mps()):
            raise ModelError(
                f'torch sees no device {self.device!r} here; set device = "auto" or "cpu", '
                "or see what viper setup doctor lists"
            )
        return self.device

    def precision(self, on_gpu: bool) -> str:
        """Return the precision of the weights: ``4bit``, ``8bit`` or a dtype.

        The checkpoint's own dtype counts as 16 bits.
        """
        automatic = "bfloat16" if on_gpu else "float32"
        return self.quantize or (automatic if self.dtype == "auto" else self.dtype)

    def resolved_dtype(self) -> Any:
        """Return a torch dtype, or ``"auto"`` for the checkpoint's own."""
        if self.dtype != "auto":
            return getattr(torch, self.dtype)
        on_processor = self.device_map is None and self.resolved_device() == "cpu"
        return torch.float32 if on_processor else "auto"


def load_pretrained(kind: Any, source: str | Path, options: LoadOptions, **more: Any) -> Any:
    """Load ``kind.from_pretrained(source)`` on its device, in its precision, in evaluation mode.

    Args:
        kind: a class of transformers with ``from_pretrained``.
        more: further keywords of it.

    Raises:
        ModelError: nothing loadable there, or it does not fit.
        MissingExtraError: a package that an option needs is missing.
    """
    folder = local_copy(source, options)
    keywords = {"dtype": options.resolved_dtype(), **_from_disk(source, options), **more}
    if options.quantize is not None:
        keywords["quantization_config"] = _quantization(options)
        if options.device != "auto":  # else the library takes the first accelerator
            keywords["device_map"] = {"": options.resolved_device()}
    few_bits = not any(folder.glob("*.safetensors")) and (folder / GGUF).is_file()
    if few_bits:
        need_packages(("gguf",), f"weights in {GGUF}")
    if options.device_map is not None:
        need_packages(("accelerate",), "the option device_map")
        keywords["device_map"] = options.device_map
    with load_errors(kind.__name__, source, _code_advice(source, folder, options)):
        if (config := getattr(kind, "config_class", None)) is not None:
            # A checkpoint of another family would load with random weights.
            stated = config.get_config_dict(folder, local_files_only=True)[0].get("model_type")
            if stated not in (None, config.model_type):
                raise ValueError(f"it is a {stated} model, not {config.model_type}")
        with without_progress_bars("transformers"):
            if few_bits:
                model = _from_gguf(kind, folder, **keywords)
            else:
                model = kind.from_pretrained(folder, **keywords)
        if options.device_map is None and options.quantize is None:
            model = model.to(options.resolved_device())
    return model.eval()


def _from_gguf(kind: Any, folder: Path, **keywords: Any) -> Any:
    import gguf

    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    with torch.device("meta"):
        network = type(kind.from_config(config))  # a class that chooses another takes no weights
    weights = {
        # in plain memory, which is faster than a mapped file; what is not unpacked is copied
        tensor.name: torch.from_numpy(
            np.require(gguf.dequantize(np.asarray(tensor.data), tensor.tensor_type), None, "W")
        )
        for tensor in gguf.GGUFReader(folder / GGUF).tensors
    }
    model, report = network.from_pretrained(
        None, config=config, state_dict=weights, output_loading_info=True, **keywords
    )
    if report["missing_keys"]:
        raise ValueError(f"{GGUF} lacks {', '.join(sorted(report['missing_keys'])[:3])}")
    model.name_or_path = model.config.name_or_path = str(folder)
    return model


@contextmanager
def without_progress_bars(library: str) -> Iterator[None]:
    """Hide the progress bars of ``transformers`` or ``diffusers`` while the block runs."""
    logging = resolve_name(f"{library}.utils.logging")
    is_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if is_enabled:
            logging.enable_progress_bar()


def load_processor(kind: Any, source: str | Path, options: LoadOptions, **more: Any) -> Any:
    """Load ``kind.from_pretrained(source)`` of a tokenizer or processor.

    Raises:
        ModelError: nothing loadable there.
    """
    folder = local_copy(source, options)
    with load_errors(kind.__name__, source, _code_advice(source, folder, options)):
        return kind.from_pretrained(folder, **_from_disk(source, options), **more)


def _from_disk(source: str | Path, options: LoadOptions) -> dict[str, Any]:
    """Return keywords with which transformers asks neither the hub nor standard input."""
    return {"local_files_only": True, "trust_remote_code": options.trusts(source)}


def _code_advice(source: str | Path, folder: Path, options: LoadOptions) -> str:
    """Return how to trust a model that brings its own code; empty if it has none, or is trusted."""
    texts = [path.read_text("utf-8", "replace") for path in folder.glob("*config.json")]
    if options.trusts(source) or not any('"auto_map"' in text for text in texts):
        return ""
    return f'; it brings Python code of its own, which runs only if [load] has trust = ["{source}"]'


@contextmanager
def load_errors(what: str, source: str | Path, advice: str = "") -> Iterator[None]:
    """Turn the errors of libraries while loading into one ModelError with advice."""
    try:
        yield
    except (OSError, ValueError, LookupError, RuntimeError, ImportError, StructError) as error:
        if is_out_of_memory(error):
            raise MemoryFullError(f"{source}: {MEMORY_ADVICE}") from error
        reason = reason_of(error)
        raise ModelError(f"{source} cannot be loaded as {what}: {reason}{advice}") from error


def reason_of(error: BaseException) -> str:
    """Return the words of an error and of its cause on one line of up to 600 characters."""
    causes = [each for each in (error, error.__cause__) if each is not None]
    texts = dict.fromkeys(" ".join(str(each).split()) for each in causes)
    reason = "; ".join(filter(None, texts)) or type(error).__name__
    if len(reason) <= _MAX_REASON:
        return reason
    half = (_MAX_REASON - 3) // 2
    return f"{reason[:half]} … {reason[-half:]}"


# Room for the two sentences in which libraries say what is wrong, not for their lists of names.
_MAX_REASON = 600

MEMORY_ADVICE = (
    "out of memory; load it in half precision (dtype), in 8 or 4 bits (quantize), spread it "
    "(device_map), lower its batch_size, or keep fewer models at once (--max-memory)"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if a device or the machine ran out of memory."""
    if isinstance(error, MemoryError | MemoryFullError):
        return True
    text = str(error).lower() if isinstance(error, RuntimeError) else ""
    full = "out of memory" in text or "can't allocate memory" in text
    return full or type(error).__name__ == "OutOfMemoryError"


@contextmanager
def memory_errors(name: str) -> Iterator[None]:
    """Name the model whose use filled the memory, and say what to change."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryFullError(f"{name}: {MEMORY_ADVICE}") from error
        raise


# Names of the options of :class:`LoadOptions`.
LOADING = frozenset(LoadOptions.__dataclass_fields__)


def check_loading(kind: type, options: Mapping[str, Any]) -> None:
    """Check the options of loading among these against those that a backend's class honours.

    Raises:
        ProfileError: the class does not honour one of them.
    """
    honoured: frozenset[str] = getattr(kind, "loads_with", frozenset())
    wrong = sorted((LOADING & options.keys()) - honoured)
    if wrong:
        raise ProfileError(
            f"{kind.__name__} takes no option {', '.join(wrong)}; its options for loading: "
            f"{', '.join(sorted(honoured)) or 'none'}"
        )


class LocalModel:
    """Base of backends that hold one torch model as ``_model``.

    Attributes:
        loads_with: names of the options of :class:`LoadOptions` that the backend honours.
    """

    loads_with: ClassVar[frozenset[str]] = LOADING
    model_id: str
    _model: Any
    _batch_size: int

    @property
    def memory_bytes(self) -> int:
        """Return the size in bytes of parameters and buffers."""
        tensors = [*self._model.parameters(), *self._model.buffers()]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def _place(self) -> Any:
        """Return a parameter, whose device and dtype the inputs must have.

        It holds floats: quantised weights are packed in integers, as pictures must never be.
        """
        parameters = list(self._model.parameters())
        return next((each for each in parameters if each.is_floating_point()), parameters[0])

    def _fitted(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return a processor's batch on the model's device, floating tensors in its precision."""
        place = self._place()
        return {
            name: value.to(place.device, place.dtype if value.is_floating_point() else value.dtype)
            for name, value in batch.items()
        }

    def _embeddings(
        self, items: Sequence[Item], forward: Callable[[Sequence[Item]], Any]
    ) -> Floats:
        """Return the rows of ``forward`` for all items, ``[N, D]``, in batches; N may be 0.

        Raises:
            ModelError: a number is not finite.
        """
        if not items:
            return np.zeros((0, 0), np.float32)
        with torch.inference_mode():
            rows = in_batches(items, self._batch_size, forward)
        embeddings = np.stack([row.float().cpu().numpy() for row in rows])
        require_finite(self.model_id, "embeddings", embeddings)
        return embeddings


# Returns the results for the items of one batch, in their order.
Forward = Callable[[Sequence[Any]], Sequence[Any]]


def in_batches(items: Sequence[Any], size: int, forward: Forward) -> list[Any]:
    """Return the results of ``forward`` for all items, in batches of up to ``size``."""
    batches = (items[start : start + size] for start in range(0, len(items), size))
    return [result for batch in batches for result in forward(batch)]


def in_equal_groups(
    items: Sequence[Item], key: Callable[[Item], Hashable], size: int, forward: Forward
) -> list[Any]:
    """Work like :func:`in_batches`, but only items with equal keys share a batch.

    Padding would let an item's neighbours change the model's answer about it.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, item in enumerate(items):
        groups.setdefault(key(item), []).append(index)
    results: dict[int, Any] = {}
    for group in groups.values():
        group_results = in_batches([items[index] for index in group], size, forward)
        results.update(zip(group, group_results, strict=True))
    return [results[index] for index in range(len(items))]


def _quantization(options: LoadOptions) -> Any:
    """Return the configuration of bitsandbytes: 8 bits, or NF4 with quantised scales.

    Source: Dettmers et al. 2023, sec. 3.
    """
    need_packages(("bitsandbytes",), f'the option quantize = "{options.quantize}"')
    if options.quantize == "8bit":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    dtype = options.resolved_dtype()
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16 if dtype == "auto" else dtype,
    )


def model_id(source: str | Path) -> str:
    """Return ``folder@hash`` for a local folder, ``hub id@commit`` for a folder of the hub's cache,
    else the source itself.

    The hash is the first 12 hexadecimal digits of the SHA-256 over the folder's safetensors files
    in order of name, so two trainings never share a cache entry. If the folder itself holds none (a
    pipeline of several networks), those of its subfolders count.
    """
    folder = Path(source)
    published = published_as(folder)
    if published is not None:
        return f"{published[0]}@{published[1][:12]}"
    if not folder.is_dir():
        return str(source)
    return f"{folder.resolve().name}@{weights_hash(folder, nested=True)[:12]}"


def weights_hash(folder: Path, *, nested: bool = False) -> str:
    """Return the SHA-256 of a folder's weights (safetensors, GGUF), 64 hex digits.

    Args:
        nested: use those of its subfolders if the folder itself holds none.
    """
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob(GGUF))
    if not files and nested:
        files = sorted(folder.rglob("*.safetensors"))
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


def split_options(options: Mapping[str, Any]) -> tuple[LoadOptions, dict[str, Any]]:
    """Return the options for loading weights, and the others.

    Raises:
        ProfileError: a value that no checkpoint can be loaded with.
    """
    loading = {name: value for name, value in options.items() if name in LOADING}
    others = {name: value for name, value in options.items() if name not in LOADING}
    return LoadOptions(**loading), others


def stated(folder: str | Path, key: str, read: Callable[[Any], Item], default: Item) -> Item:
    """Return what ``viper.json`` in a checkpoint's folder states under a key, else the default.

    Raises:
        ModelError: the file cannot be read, or ``read`` raises ValueError for the value.
    """
    path = Path(folder) / "viper.json"
    if not path.is_file():
        return default
    with load_errors(f"a statement of its {key}", path):
        values = json.loads(path.read_text("utf-8"))
        return read(values[key]) if key in values else default


class Checkpoint(LocalModel):
    """Backend on one checkpoint of transformers: a network and the reader of its inputs.

    Args:
        model: the network.
        processor: reads its inputs.
        name: goes into traces and cache keys.
        batch_size: maximum number of inputs in one forward pass.

    Attributes:
        network: ``module:class`` that loads the network.
        readers: classes that load the readers of its inputs.
    """

    network: ClassVar[str]
    readers: ClassVar[tuple[str, ...]] = ("transformers:AutoImageProcessor",)

    def __init__(self, model: Any, processor: Any, name: str, *, batch_size: int = 8) -> None:
        self.model_id = name
        self._model = model.eval()
        self._processor = processor
        self._batch_size = batch_size

    def _text_inputs(self, tokenizer: Any, texts: Sequence[str], **how: Any) -> dict[str, Any]:
        """Return ids and mask of texts ``[B, T]`` on the model's device, cut to what it reads."""
        limit = self._model.config.text_config.max_position_embeddings
        options = {"padding": True, "truncation": True, "max_length": limit, **how}
        tokens = tokenizer(list(texts), return_tensors="pt", **options)
        return self._fitted({name: tokens[name] for name in ("input_ids", "attention_mask")})

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> Self:
        """Load a folder or a published checkpoint.

        Args:
            source: a folder or a hub id.
            options: those of :class:`LoadOptions`, and the class's own keywords.

        Raises:
            ModelError: nothing loadable under that name.
            ProfileError: a wrong value.
            TypeError: an unknown option of the class; nothing was loaded.
        """
        loading, own = split_options(options)
        inspect.signature(cls).bind_partial(**own)
        model = load_pretrained(resolve_name(cls.network), source, loading)
        readers = [load_processor(resolve_name(reader), source, loading) for reader in cls.readers]
        arguments: list[Any] = [model, *readers, model_id(local_copy(source, loading))]
        return cls(*arguments, **own)


class PictureTextCheckpoint(Checkpoint):
    """Checkpoint with separate readers for pictures and texts.

    Args:
        model: the network.
        image_processor: its image processor.
        tokenizer: its tokenizer.
        name: goes into traces and cache keys.
        batch_size: maximum number of inputs in one forward pass.
    """

    readers = ("transformers:AutoImageProcessor", "transformers:AutoTokenizer")

    def __init__(
        self, model: Any, image_processor: Any, tokenizer: Any, name: str, *, batch_size: int
    ) -> None:
        super().__init__(model, image_processor, name, batch_size=batch_size)
        self._tokenizer = tokenizer
