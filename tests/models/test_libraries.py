"""Importing the libraries: what is left out of it, and that it is there once something uses it."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import gc, sys
from viper.models.libraries import import_libraries
import_libraries()
assert gc.isenabled()
"""


def stdout(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_neither_the_compiler_nor_the_optimizers_are_imported_for_the_classes_of_a_run() -> None:
    loaded = stdout(
        "from transformers import LlamaForCausalLM, Owlv2ForObjectDetection, Owlv2Processor\n"
        "print(*sys.modules, sep='\\n')"
    ).splitlines()
    assert "torchvision.ops.roi_align" in loaded
    unwanted = ("scipy.optimize", "torch._dynamo.symbolic_convert", "torch._inductor", "triton")
    assert not set(unwanted) & set(loaded)


def test_what_was_left_out_is_loaded_by_whoever_uses_it() -> None:
    printed = stdout(
        "import torch, torchvision\n"
        "from transformers.loss import loss_for_object_detection as loss\n"
        "from transformers import masking_utils\n"
        "print(*loss.linear_sum_assignment([[1, 0], [0, 1]]))\n"
        "import scipy.optimize._optimize\n"
        "print(scipy.optimize.minimize.__module__)\n"
        "print(torchvision.ops.roi_align(torch.ones(1, 1, 4, 4), "
        "torch.tensor([[0, 0, 0, 2, 2.0]]), 1).item())\n"
        "print(type(masking_utils.TransformGetItemToIndex()).__name__)\n"
        "print(torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)).item())\n"
        "import torch._dynamo.config, torch._dynamo.utils\n"
        "print(torch._dynamo.utils.is_compile_supported.__module__)\n"
    )
    assert printed.splitlines() == [
        "[0 1] [1 0]",
        "scipy.optimize._minimize",
        "1.0",
        "TransformGetItemToIndex",
        "2.0",
        "torch._dynamo.utils",
    ]


def test_a_submodule_of_the_compiler_can_be_imported_first() -> None:
    assert stdout(
        "from torch._dynamo.external_utils import wrap_inline\n"
        "import torch\n"
        "print(wrap_inline.__module__, torch._dynamo.__file__.endswith('__init__.py'))"
    ).split() == ["torch._dynamo.external_utils", "True"]


def test_marks_for_the_compiler_reach_it_when_it_is_loaded() -> None:
    assert stdout(
        "import torch\n"
        "from transformers.integrations import deepgemm\n"
        "marked = [f for _, f in sys.modules['torch._dynamo']._marks]\n"
        "constant = [f for name, f in sys.modules['torch._dynamo']._marks "
        "if name == 'assume_constant_result']\n"
        "assert len(marked) > len(constant) > 0\n"
        "from torch._dynamo import trace_rules\n"
        "known = trace_rules._allowed_callable_ids\n"
        "print(all(f._dynamo_marked_constant for f in constant), "
        "all(id(f) in known for f in marked if f not in constant))"
    ).split() == ["True", "True"]


def test_a_function_that_the_compiler_must_skip_still_runs() -> None:
    assert stdout(
        "import torch\n"
        "assert '_marks' in vars(sys.modules['torch._dynamo'])\n"
        "@torch.compiler.disable\n"
        "def double(x):\n"
        "    return 2 * x\n"
        "print(double(4), double.__name__)\n"
        "assert '_marks' in vars(sys.modules['torch._dynamo'])\n"
        "print(torch.compile(double, backend='eager')(torch.ones(1)).item())\n"
        "seen = []\n"
        "def backend(graph, inputs):\n"
        "    seen.append(graph)\n"
        "    return graph\n"
        "print(torch.compile(lambda x: double(x) + 1, backend=backend)(torch.ones(1)).item())\n"
        "print(['mul' in graph.code for graph in seen])"
    ).splitlines() == ["8 double", "2.0", "3.0", "[False]"]


def test_a_process_that_imported_the_libraries_before_keeps_what_it_has() -> None:
    program = (
        "import sys, transformers.modeling_utils\n"
        "compiler = sys.modules['torch._dynamo']\n"
        "from viper.models.libraries import import_libraries\n"
        "import_libraries()\n"
        "print(sys.modules['torch._dynamo'] is compiler, compiler.__file__ is not None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_the_end_of_the_process_frees_everything() -> None:
    """Triton, for one, reports on stderr what was not freed."""
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", f"import triton.language\n{BEGIN}"], capture_output=True, check=True
    )
    assert done.stderr == b""
