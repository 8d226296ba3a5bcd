"""The part of numpy that programs get: arithmetic on arrays, without access to files or memory.

Arrays of objects are refused. numpy's loops and sorts assume that an object's own methods leave the
array alone, but a program could write to it while they run.

These names are left out on purpose: load, save, fromfile, memmap, frombuffer, as_strided, ctypes,
``data``, ``base``, ``view``, setflags, frompyfunc, vectorize and the ``ndarray`` constructor. Each
of them reads or reinterprets memory, or runs strings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from viper.sandbox.arrays import HAS_NUMPY, ndarray
from viper.sandbox.classes import ForbiddenTypeError
from viper.sandbox.standard import NDARRAY, TypeToken

if HAS_NUMPY:
    import numpy as np

# Functions that compute on arrays and return arrays or numbers; see above for what is left out.
_FUNCTIONS = """
abs absolute add all allclose amax amin any append arange arccos arcsin arctan arctan2 argmax
argmin argpartition argsort argwhere around array array_equal asarray atleast_1d atleast_2d
average bincount broadcast_to cbrt ceil clip column_stack concatenate copy corrcoef cos cosh
count_nonzero cov cross cumprod cumsum degrees deg2rad diag diff digitize divide dot einsum empty
equal exp expand_dims expm1 eye flatnonzero flip fliplr flipud floor floor_divide fmax fmin full
full_like gradient greater greater_equal histogram hstack hypot identity inner interp intersect1d
isclose isfinite isin isinf isnan kron less less_equal linspace log log10 log1p log2 logical_and
logical_not logical_or logical_xor logspace matmul max maximum mean median meshgrid min minimum
mod moveaxis multiply nan_to_num nanargmax nanargmin nanmax nanmean nanmedian nanmin nanstd nansum
negative nonzero not_equal ones ones_like outer pad percentile power prod quantile rad2deg radians
ravel reciprocal remainder repeat reshape rint roll rot90 round searchsorted setdiff1d sign sin
sinh sort split sqrt square squeeze stack std subtract sum swapaxes take tan tanh tensordot tile
trace transpose triu tril trunc union1d unique unravel_index var vdot vstack where zeros
zeros_like ptp array_split
"""
_CONSTANTS = "pi e inf nan newaxis"
# Types that convert numbers. None of them takes text that it parses as a format.
_SCALARS = (
    "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 intp str_"
)
_LINALG = "norm inv det solve lstsq matrix_rank eigvals eigvalsh eigh"
# Further names for programs that work on arrays of pixels.
_WIDE = """
angle append array_equiv bitwise_and bitwise_or bitwise_xor blackman block
broadcast_arrays choose compress conj conjugate convolve copysign correlate delete diagonal
divmod dsplit dstack ediff1d extract fill_diagonal fix float_power fmod frexp geomspace hamming
hanning heaviside histogram2d histogram_bin_edges histogramdd hsplit imag indices insert invert
iscomplex iscomplexobj isneginf isposinf isreal isrealobj isscalar kaiser ldexp left_shift lexsort
logaddexp logaddexp2 modf nancumprod nancumsum nanpercentile nanprod nanquantile nanvar ndim
packbits partition place poly polyadd polyder polyfit polyint polymul polyval positive put
put_along_axis putmask ravel_multi_index real resize right_shift rollaxis roots select setxor1d
shape signbit sinc size sort_complex take_along_axis tri tril_indices trim_zeros
triu_indices unpackbits unwrap vander vsplit
"""

_WIDE_LINALG = "cholesky cond eig matrix_power multi_dot pinv qr slogdet svd"
_FFT = "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 fftfreq rfftfreq fftshift ifftshift"

# From a source of a fixed seed, so that the same program has the same answer.
_RANDOM = "rand randn randint random random_sample choice shuffle permutation uniform normal seed"


def numpy_members() -> dict[str, Any]:
    """Return the names of ``numpy`` for programs; ``linalg`` and ``random`` are nested dicts."""
    members: dict[str, Any] = {name: plain(getattr(np, name)) for name in _FUNCTIONS.split()}
    # uninitialised arrays would expose old memory
    members["empty"] = members["zeros"]
    members["pad"] = _pad
    members |= {name: getattr(np, name) for name in _CONSTANTS.split()}
    members |= {name: getattr(np, name) for name in _SCALARS.split()}
    members |= {
        "ndarray": NDARRAY,
        "number": TypeToken("number", np.number),
        "integer": TypeToken("integer", np.integer),
        "floating": TypeToken("floating", np.floating),
        "generic": TypeToken("generic", np.generic),
        "bool": np.bool_,
    }
    members["linalg"] = {name: plain(getattr(np.linalg, name)) for name in _LINALG.split()}
    source = np.random.RandomState(0)
    members["random"] = {name: plain(getattr(source, name)) for name in _RANDOM.split()}
    members["random"]["seed"] = lambda number=0: source.seed(number)
    return members


def wide_numpy_members() -> dict[str, Any]:
    """Return the names of ``numpy`` for programs that work on arrays of pixels."""
    members = numpy_members()
    members |= {name: plain(getattr(np, name)) for name in _WIDE.split()}
    members |= {"complex64": np.complex64, "complex128": np.complex128}
    wide = {name: plain(getattr(np.linalg, name)) for name in _WIDE_LINALG.split()}
    members["linalg"] = {**members["linalg"], **wide}
    members["fft"] = {name: plain(getattr(np.fft, name)) for name in _FFT.split()}
    windows = plain(np.lib.stride_tricks.sliding_window_view)
    members["lib"] = {"stride_tricks": {"sliding_window_view": windows}}
    return members


def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    return refuse_objects(
        np.pad(array, pad_width, "constant" if mode == "empty" else mode, **options)
    )


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, wrapped to raise a TypeError if its result holds an array of objects.

    With ``where``, functions of elements leave the others as the memory was; they need ``out``.
    """
    outputs = function.nout if isinstance(function, np.ufunc) else 1
    elementwise = isinstance(function, np.ufunc) or function.__name__ == "clip"

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if elementwise and kwargs.get("where", True) is not True:
            out = kwargs.get("out")
            out = out if isinstance(out, tuple) else (out,)
            if len(out) != outputs or not all(isinstance(each, ndarray) for each in out):
                raise TypeError("where= needs out=, an array with the values of the other elements")
        result = refuse_objects(function(*args, **kwargs))
        return tuple(result) if isinstance(result, tuple) else result  # also named ones

    return checked


def refuse_objects(value: Any) -> Any:
    """Return the value unchanged.

    Raises:
        ForbiddenTypeError: it is an array of objects, or a list or tuple that holds one.
    """
    if isinstance(value, ndarray):
        if value.dtype.hasobject:
            raise ForbiddenTypeError("arrays of objects are not available to programs: use a list")
    elif isinstance(value, list | tuple):
        for item in value:
            refuse_objects(item)
    return value
