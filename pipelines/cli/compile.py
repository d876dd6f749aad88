"""`folkmoot compile`: a DSPy optimizer improves a program's prompts, within a budget."""

from __future__ import annotations

from collections.abc import Callable

from ..compilation.compile import compile_as_planned
from ..compilation.outcome import Compilation, compilation_in
from ..compilation.plan import CompilationPlan, plan_compilation
from ..compilation.request import CompileRequest
from .life import live
from .options import Confirmed


def compile(request: CompileRequest, view: Confirmed) -> None:
    request.progress = view.progress
    live(request, view, plan_compilation(request, stored=True), _compiled, _left)


def _compiled(plan: CompilationPlan, show: Callable[[Compilation], None]) -> Compilation:
    compilation: Compilation = compile_as_planned(plan, show).compilation
    return compilation


def _left(plan: CompilationPlan) -> Compilation | None:
    return compilation_in(plan.out)
