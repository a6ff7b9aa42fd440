"""The lean pipeline: numba's compiler with fewer passes, without unused wrappers and without unreachable branches.

It uses internals of numba, which may change in any minor version; `pipelines.py` lists the tested versions.
"""

from __future__ import annotations

import functools
import gc
import operator
from typing import Any

import numpy as np
from llvmlite.binding import parse_assembly
from numba.core import ir, types
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, PassManager
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.rewrites.registry import rewrite_registry
from numba.core.ssa import reconstruct_ssa
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.typing.arraydecl import GetItemBuffer, SetItemBuffer
from numba.core.typing.builtins import BinOp, BinOpTrueDiv, OrderedCmpOp, UnorderedCmpOp
from numba.core.typing.templates import infer_global
from numba.core.untyped_passes import FixupArgs, TranslateByteCode
from numba.extending import lower_builtin

from .pipelines import CONSTANTS, DOCUMENTED, PACKAGE, Options, class_of, is_ours_by_module

_CASTS = (np.uint64, bool, int, float)


def _example(kind: Any) -> Any:
    """Return a record of the type, with None in place of its numbers."""
    record = class_of(kind)
    return record and record(*map(_example, kind.types))


class _Known:
    """The values and types of a function's variables that are known before type inference."""

    def __init__(self, function: ir.FunctionIR, args: Any) -> None:
        self.definitions, self.args = function._definitions, args

    def definition(self, variable: Any) -> Any:
        """Return the definition of a variable, through plain copies; None if it is not unique."""
        while isinstance(variable, ir.Var):
            found = self.definitions[variable.name]
            variable = found[0] if len(found) == 1 else None
        return variable

    def part(self, thing: Any, index: int) -> Any:
        """Return item ``index`` of a tuple, as a definition or a type."""
        while isinstance(thing, ir.Expr) and thing.op == "exhaust_iter":
            thing = self.definition(thing.value)
        if isinstance(thing, ir.Expr) and thing.op == "build_tuple":
            return self.definition(thing.items[index])
        kind = self.type_of(thing)
        return kind.types[index] if isinstance(kind, types.BaseTuple) else None

    def type_of(self, thing: Any) -> Any:
        """Return the type of an argument or of a part of one, or None."""
        if isinstance(thing, types.Type):
            return thing
        if isinstance(thing, ir.Arg):
            return self.args[thing.index]
        if isinstance(thing, ir.Expr) and thing.op == "static_getitem":
            return self.type_of(self.part(self.definition(thing.value), thing.index))
        if isinstance(thing, ir.Expr) and thing.op == "getattr":
            kind = self.type_of(self.definition(thing.value))
            fields = getattr(kind, "fields", ())
            return kind.types[fields.index(thing.attr)] if thing.attr in fields else None
        return None

    def value_of(self, thing: Any) -> Any:
        """Return the number or function that a definition stands for, if it is known."""
        if isinstance(thing, ir.Const | ir.Global | ir.FreeVar):
            return thing.value
        if not isinstance(thing, ir.Expr):
            return None
        if thing.op == "static_getitem":
            return self.value_of(self.part(self.definition(thing.value), thing.index))
        if thing.op == "call":
            return self.called(self.value_of(self.definition(thing.func)), thing.args)
        if thing.op == "binop":
            values = [self.value_of(self.definition(side)) for side in (thing.lhs, thing.rhs)]
            decided = {operator.and_: False, operator.or_: True}.get(thing.fn)
            if any(isinstance(value, bool | np.bool_) and value == decided for value in values):
                return decided
            return None if any(value is None for value in values) else thing.fn(*values)
        return None

    def called(self, function: Any, args: Any) -> Any:
        """Return the value of a call, if it is known."""
        argument = self.definition(args[0]) if len(args) == 1 and callable(function) else None
        if argument is not None and function in CONSTANTS:
            kind = self.type_of(argument)
            return None if kind is None else function(_example(kind))
        value = self.value_of(argument) if function in _CASTS else None
        return None if value is None else function(value)

    def is_constant(self, thing: Any) -> bool:
        """Return whether a definition is a call of a constant of a known record."""
        if not isinstance(thing, ir.Expr) or thing.op != "call" or self.value_of(thing) is None:
            return False
        return self.value_of(self.definition(thing.func)) in CONSTANTS


@register_pass(mutates_CFG=True, analysis_only=False)
class _Prune(FunctionPass):
    """A pass that inserts the constants of records, and decides the branches on them, before type inference.

    Type inference is what compilation costs.
    """

    _name = f"{PACKAGE}_prune"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        function = state.func_ir
        known = _Known(function, state.args)
        for block in function.blocks.values():
            end = block.body[-1]
            if isinstance(end, ir.Branch):
                value = known.value_of(known.definition(end.cond))
                if value is not None:
                    block.body[-1] = ir.Jump(end.truebr if value else end.falsebr, end.loc)
            for statement in block.find_insts(ir.Assign):
                if known.is_constant(statement.value):
                    statement.value = ir.Const(known.value_of(statement.value), statement.loc)
        for label in compute_cfg_from_blocks(function.blocks).dead_nodes():
            del function.blocks[label]
        function._definitions = build_definitions(function.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Rewrite(FunctionPass):
    """A pass that applies numba's rewrites, then gives each assignment a variable of its own.

    numba analyses the lifetimes of variables after each of these steps.  Only IRLegalization needs them.
    """

    _name = f"{PACKAGE}_rewrite"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        function = state.func_ir
        for kind in rewrite_registry.rewrites["before-inference"]:
            rewrite = kind(state)
            for label in function.blocks:
                while rewrite.match(function, function.blocks[label], None, None):
                    function.blocks[label] = rewrite.apply()
        reconstruct_ssa(function)
        function._definitions = build_definitions(function.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _StripPhis(PreLowerStripPhis):
    """A pass that turns the phi nodes of `_Rewrite` into assignments."""

    _name = f"{PACKAGE}_strip_phis"

    def run_pass(self, state: Any) -> bool:
        function = state.func_ir = self._strip_phi_nodes(state.func_ir)
        function._definitions = build_definitions(function.blocks)
        return True


class _Manager(PassManager):
    """A pass manager without numba's checks after each pass."""

    _ENFORCING = False


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel, optimized only as a whole: a further pass by function would take a tenth of the time."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return the machine code, and a module that only names its symbols.

        numba would add the whole module, for code that a kernel is inlined into.  There is none, and to read the module
        would be a third of the time of loading a kernel.
        """
        self._ensure_finalized()
        module = self._final_module
        defined = [each.name for each in (*module.functions, *module.global_variables) if not each.is_declaration]
        symbols = parse_assembly("\n".join(f'@"{name}" = global i8 0' for name in defined))
        return self.name, "object", (self._get_compiled_object(), symbols.as_bitcode())


class _LinkedLibrary(_KernelLibrary):
    """The code of functions that only other code calls: it is optimized and translated where it is inlined."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: numba calls it on ``codegen``, but code that is not translated has no address."""


@functools.cache
def _size_of(kind: Any, target_data: Any) -> int:
    """Return the number of bytes of an LLVM type.

    numba needs it for the debugger, once per variable, and has LLVM parse a module each time.
    """
    return kind.get_abi_size(target_data)


class _Lean(CompilerBase):
    """numba's compiler without garbage collection and without passes that our functions do not need.

    The collections free nothing and cost a sixth of the time.  The passes left out are for closures, array expressions,
    ``with`` and literals; a user's functions get all passes.  IRLegalization ends the life of variables, and with them
    of references to arrays; it is left out where references are not counted.
    """

    passes = [
        TranslateByteCode,
        FixupArgs,
        _Prune,
        _Rewrite,
        NopythonTypeInference,
        _StripPhis,
        IRLegalization,
        NativeLowering,
        NoPythonBackend,
    ]

    library: type[JITCodeLibrary] = _KernelLibrary

    def define_pipelines(self) -> list[PassManager]:
        if not is_ours_by_module(self.state.func_id.func):
            return [DefaultPassBuilder.define_nopython_pipeline(self.state)]
        manager = _Manager(PACKAGE)
        for each in self.passes:
            if each is not IRLegalization or self.state.flags.nrt:
                manager.add_pass(each, each.__name__)
        manager.finalize()
        return [manager]

    def compile_extra(self, function: Any) -> Any:
        context = self.state.targetctx
        sizes = functools.partial(_size_of, target_data=context.target_data)
        self.state.targetctx = context.subtarget(get_abi_sizeof=sizes, enable_nrt=bool(self.state.flags.nrt))
        self.state.library = self.library(context.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(function)
        finally:
            if collects:
                gc.enable()


class _LeanInner(_Lean):
    """The compiler of functions that only kernels call.

    Ours keep no arrays, so code that counts references to them is omitted.
    """

    library = _LinkedLibrary

    def compile_extra(self, function: Any) -> Any:
        self.state.flags.nrt = not is_ours_by_module(function)
        return super().compile_extra(function)


@lower_builtin("__array__", types.Array)
def _same_array(context: Any, builder: Any, sig: Any, values: Any) -> Any:
    """Return the array itself.

    numba looks for this function at each access to an array.  It has none, and so would reload all its registries.
    """
    return values[0]


def _first(function: Any, template: Any) -> None:
    """Make numba try this template of its own first: it would try up to nineteen others for a sum of two floats."""
    infer_global(function)(type(template.__name__, (template,), {"metadata": {"target": "cpu"}}))


for _template, _names in {
    GetItemBuffer: "getitem",
    SetItemBuffer: "setitem",
    BinOp: "add sub mul iadd isub imul",
    BinOpTrueDiv: "truediv itruediv",
    OrderedCmpOp: "lt le gt ge",
    UnorderedCmpOp: "eq ne",
}.items():
    for _name in _names.split():
        _first(getattr(operator, _name), _template)


_KERNEL = DOCUMENTED | {"no_cfunc_wrapper": True, "pipeline_class": _Lean}
LEAN = Options(
    pipeline="lean",
    kernel=_KERNEL | {"_nrt": False},  # no code that counts references to arrays
    allocating=_KERNEL,
    inner=_KERNEL | {"no_cpython_wrapper": True, "pipeline_class": _LeanInner},  # never called from Python or C
)
