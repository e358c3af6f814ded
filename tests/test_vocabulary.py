"""Vocabulary: names of modules and classes are unique, and made of terms of the glossary and of general words."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

from scripts.glossary import PAGE, SOURCE, page_of

PACKAGE = Path(__file__).parent.parent / "src" / "quantide"
MODULES = [path for path in PACKAGE.rglob("*.py") if not path.name.startswith("__")]
GLOSSARY = tomllib.loads(SOURCE.read_text(encoding="utf-8"))


def classes() -> list[str]:
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))
    return [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def words_of(name: str) -> list[str]:
    """Split snake_case or CamelCase into lower-case words."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name.replace("NaN", "Nan"))]


def known_words() -> set[str]:
    terms = [term for section in GLOSSARY.values() if isinstance(section, dict) for term in section["terms"]]
    return {word for term in terms for word in words_of(term)} | {*GLOSSARY["general_words"]}


def singular(word: str) -> str:
    for ending, replacement in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("s", "")):
        if word.endswith(ending) and not word.endswith("ss"):
            return word.removesuffix(ending) + replacement
    return word


def test_no_two_modules_have_the_same_name() -> None:
    packages = [path.name for path in PACKAGE.rglob("*") if (path / "__init__.py").exists()]
    names = Counter([path.stem for path in MODULES])
    assert [name for name, count in names.items() if count > 1] == []
    assert sorted({*names} & {*packages}) == ["client", "history", "summary"]  # each is its package's subject


def test_no_two_classes_have_the_same_name() -> None:
    assert [name for name, count in Counter(classes()).items() if count > 1] == []


def test_names_are_made_of_the_terms_of_the_glossary() -> None:
    known = known_words()
    names = {path.stem for path in MODULES} | {name.lstrip("_") for name in classes()}
    unknown = {(word, name) for name in names for word in words_of(name) if not {word, singular(word)} & known}
    assert sorted(unknown) == []


def test_no_general_word_is_superfluous() -> None:
    names = {path.stem for path in MODULES} | {*classes()}
    used = {form for name in names for word in words_of(name) for form in (word, singular(word))}
    assert sorted({*GLOSSARY["general_words"]} - used) == []


def test_every_term_is_defined_once() -> None:
    terms = [term.lower() for section in GLOSSARY.values() if isinstance(section, dict) for term in section["terms"]]
    assert [term for term, count in Counter(terms).items() if count > 1] == []


def test_the_page_of_the_glossary_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_of()
