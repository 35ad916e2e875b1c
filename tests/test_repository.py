"""The repository as a whole: the table of contents, the lock, sizes, what must not be in it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest
import yaml

from book.evidence import sources
from tests.conftest import ROOT

TRACKED = [
    ROOT / name
    for name in subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False
    ).stdout.splitlines()
]


def test_every_chapter_and_page_is_in_the_contents():
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = {contents["root"], *(c["file"] for part in contents["parts"] for c in part["chapters"])}
    assert {f"notebooks/{chapter}" for chapter in sources.chapters()} <= files
    assert {f"book/{path.stem}" for path in (ROOT / "book").glob("*.md")} <= files


def test_the_lock_pins_every_direct_dependency():
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [x for extra in project["optional-dependencies"].values() for x in extra]
    normal = {name.lower().replace("_", "-").replace(".", "-") for name in pins}
    for requirement in wanted:
        name = re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")
        if name == project["name"]:  # one of its own extras
            continue
        assert name in normal, f"{name} is not in requirements.lock: run make lock"
    assert "+" not in pins["torch"], "a local version of torch cannot be installed elsewhere"


def lines_of_docstrings(tree: ast.Module) -> int:
    """A parameter a line makes them long, and a module no harder to follow."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)]
    return sum(node.body[0].end_lineno - node.body[0].lineno + 1 for node in nodes)


@pytest.mark.parametrize(
    "path",
    sorted(path for folder in sources.PACKAGES.values() for path in folder.rglob("*.py")),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_modules_stay_small_and_documented(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert len(text.splitlines()) - lines_of_docstrings(tree) <= 500, "split the module"
    assert ast.get_docstring(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


@pytest.mark.skipif(not TRACKED, reason="not a git checkout")
def test_no_machine_path_and_no_large_file_is_committed():
    for path in TRACKED:
        if not path.is_file():
            continue
        most = 20_000_000 if path.parent == ROOT / "book" / "runs" else 2_000_000
        assert path.stat().st_size < most, f"{path} is large for a repository of text"
        if path.suffix in (".py", ".md", ".yml", ".toml", ".json", ".ipynb", ".lock", ".cff"):
            text = path.read_text(encoding="utf-8")
            machine = re.search(r"(?<![\w.])/(?:work|root|tmp/wk)/", text)
            assert not machine, f"{path} names a path of one machine: {machine[0]}"


def test_importing_the_checks_stays_fast():
    """The check cell must answer before anything heavy is loaded."""
    program = "import sys; from dplib import checks; assert not {'torch', 'scipy', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.parametrize("path", sorted((ROOT / "dplib").rglob("*.py")), ids=lambda path: path.stem)
def test_what_the_library_offers_says_its_types(path):
    def public(node: ast.AST) -> Iterator[ast.FunctionDef]:
        for child in node.body:
            if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
                yield from public(child)
            elif isinstance(child, ast.FunctionDef) and (child.name == "__init__" or not child.name.startswith("_")):
                yield child

    for function in public(ast.parse(path.read_text(encoding="utf-8"))):
        given = function.args
        named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
        without = [each.arg for each in named if each.annotation is None and each.arg not in ("self", "cls")]
        assert not without, f"{function.name}: {', '.join(without)}"
        assert function.returns or function.name == "__init__", function.name


@pytest.mark.parametrize("path", sorted((ROOT / "dplib").rglob("*.py")), ids=lambda path: path.stem)
def test_what_the_library_offers_says_what_it_takes_and_raises(path):
    """A parameter a line under Args, an error a line under Raises; of a class both are in its own docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for name, text, parameters, errors in offered(tree, functions):
        arguments, raised = section(text, "Args"), section(text, "Raises")
        assert not (missing := parameters - arguments), f"{name} says nothing of {', '.join(sorted(missing))}"
        assert not (unknown := arguments - parameters), f"{name} has no {', '.join(sorted(unknown))}"
        assert not (missing := errors - raised), f"{name} does not say that it raises {', '.join(sorted(missing))}"


def offered(tree: ast.Module, functions: dict[str, ast.FunctionDef]) -> Iterator[tuple[str, str, set[str], set[str]]]:
    """Name, docstring, parameters and errors of each public function, class and method of a module."""
    for node in public_in(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, ast.get_docstring(node), parameters_of(node), errors_of(node, functions)
            continue
        first = [each for each in node.body if getattr(each, "name", "") in ("__init__", "__post_init__")]
        made = {name for each in first for name in parameters_of(each)}
        if re.search("dataclass|NamedTuple", " ".join(map(ast.unparse, [*node.decorator_list, *node.bases]))):
            fields = (each.target.id for each in node.body if isinstance(each, ast.AnnAssign))
            made |= {name for name in fields if not name.startswith("_")}
        yield (
            node.name,
            ast.get_docstring(node),
            made,
            {error for each in first for error in errors_of(each, functions)},
        )
        for method in public_in(node):
            if text := ast.get_docstring(method):  # without one it is what a class above says of it
                yield f"{node.name}.{method.name}", text, parameters_of(method), errors_of(method, functions)


def public_in(node: ast.Module | ast.ClassDef) -> list[ast.FunctionDef | ast.ClassDef]:
    kinds = (ast.FunctionDef, ast.ClassDef) if isinstance(node, ast.Module) else ast.FunctionDef
    return [each for each in node.body if isinstance(each, kinds) and not each.name.startswith("_")]


def parameters_of(function: ast.FunctionDef) -> set[str]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return {each.arg for each in named} - {"self", "cls"}


def errors_of(
    function: ast.FunctionDef, functions: dict[str, ast.FunctionDef], above: tuple[str, ...] = ()
) -> set[str]:
    """Errors that a function raises itself, by a rule, or in this module's private functions; not what it catches."""
    errors = {
        "ParameterError" for each in function.decorator_list if re.match(r"(checks\.)?bounded\(", ast.unparse(each))
    }
    caught: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and node.exc is not None:
            errors.add(ast.unparse(node.exc).partition("(")[0].rpartition(".")[2])
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).removeprefix("self.")
            if called.endswith(".check"):
                errors.add("ParameterError")
            elif called.startswith("_") and called in functions and called not in above:
                errors |= errors_of(functions[called], functions, (*above, called))
        elif isinstance(node, ast.ExceptHandler) and node.type:
            caught |= set(re.findall(r"\w+Error", ast.unparse(node.type)))
    return {error for error in errors - caught if re.fullmatch(r"[A-Z]\w+Error", error)}


def section(docstring: str, title: str) -> set[str]:
    """The names that a section of a docstring explains, each at the beginning of a line."""
    lines = re.search(rf"(?m)^{title}:\n((?:(?:    .*)?\n?)*)", docstring + "\n")
    return set(re.findall(r"(?m)^    (\w+): \S", lines[1])) if lines else set()
