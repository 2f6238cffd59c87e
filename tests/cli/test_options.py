"""The table of options: what every record promises, whatever records there are."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from undercut.cli.models import MODELS, build
from undercut.cli.options import table as options
from undercut.cli.options.given import Given
from undercut.cli.options.option import Option
from undercut.cli.options.signature import train_signature
from undercut.cli.options.table import OPTIONS, named
from undercut.errors import ParameterError

SAMPLES = {str: "1", int: 1, float: 0.5, bool: True, Path: Path("x"), list[str]: ["x"]}
ESTIMATORS = [(model, kind) for model in MODELS for kind in model.kinds]


def sample(option: Option) -> object:
    """A value that the option takes."""
    return (*option.choices, SAMPLES[option.type])[0]


def with_its_needs(option: Option) -> dict[str, object]:
    """The option, the first of the options that it needs, and what that one needs."""
    typed = {option.name: sample(option)}
    for other, values in list(option.needs.items())[:1]:
        typed |= with_its_needs(named(other)) | {other: (*values, sample(named(other)))[0]}
    return typed


def by_name(chosen):
    return pytest.mark.parametrize("option", [o for o in OPTIONS if chosen(o)], ids=lambda option: option.name)


def test_no_name_and_no_flag_is_given_twice():
    flags = [flag for option in OPTIONS for flag in (option.flags or (option.flag(),))]
    assert len(set(flags)) == len(flags)
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)


def test_the_help_shows_every_option_in_its_panel_and_cuts_nothing_at_80_columns(undercut, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = undercut("train", "--help")
    assert code == 0
    assert "…" not in out
    assert "{" not in out.replace("{file}", "")
    panels = {part.split(" ─")[0].strip(): part for part in out.split("╭─")}
    for option in OPTIONS:
        assert f" {option.flag()} " in panels[option.panel]


@pytest.mark.parametrize("name", ["epsilon_insensitive", "optimistic_proximal", "line_search_bundle", "poly", "crf"])
def test_the_help_names_what_the_tables_hold(undercut, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    assert name in undercut("train", "--help")[1]


@by_name(lambda option: option.needs)
def test_an_option_that_needs_another_is_refused_without_it(option):
    with pytest.raises(ParameterError, match=f"^{option.flag()} needs --{next(iter(option.needs))}"):
        Given({option.name: sample(option)}).check()
    typed = Given(with_its_needs(option))
    if not typed.keys() & set(named(next(iter(option.needs))).needs):
        typed.check()


@by_name(lambda option: option.excludes)
def test_options_that_exclude_each_other_are_refused_together(option):
    for other in option.excludes:
        with pytest.raises(ParameterError, match="exclude each other: give one of them"):
            Given({option.name: sample(option), other: sample(named(other))}).check()


@by_name(lambda option: not option.online)
def test_an_option_without_a_meaning_online_is_refused_there(option):
    with pytest.raises(ParameterError, match=f"^{option.flag()} is not for --online: drop it"):
        Given({option.name: sample(option), "online": True}).check()


@by_name(lambda option: option.choices)
def test_a_value_that_is_no_choice_is_refused_with_the_choices(option):
    choices = " or ".join(option.choices)
    with pytest.raises(ParameterError, match=f"{option.flag()} must be {choices} or absent; got 'other'"):
        Given.read({option.name: "other"})


@by_name(lambda option: option.files)
def test_an_option_about_one_kind_of_file_is_refused_for_another(option):
    given = Given({option.name: sample(option)})
    given.check_file(option.files)
    with pytest.raises(ParameterError, match=f"^{option.flag()} is for {option.files}: drop it"):
        given.check_file("other files")


@by_name(lambda option: option.sets)
def test_an_option_is_refused_for_exactly_the_estimators_without_its_parameter(option):
    takes = [kind for _, kind in ESTIMATORS if option.sets in inspect.signature(kind).parameters]
    assert takes
    if option.name in {model.option for model in MODELS}:
        return  # it chooses the estimator
    for model in MODELS[1:-1]:
        given = Given({option.name: sample(option), model.option: model.value or sample(named(model.option))})
        refused = "" if model.kinds[0] in takes else f"{option.flag()} is not for {model.label()}"
        try:
            build(given)
            message = ""
        except ParameterError as error:
            message = str(error)
        assert ("is not for" in message) == bool(refused)
        assert message.startswith(refused)


def test_a_record_is_all_that_a_new_option_takes():
    extra = Option("store_gram", options.KERNEL, "Keep the Gram matrix", type=bool, sets="store_gram",
                   flags=("--store-gram/--no-store-gram",), needs={"kernel": ()})  # fmt: skip
    OPTIONS.append(extra)
    try:
        assert train_signature().parameters["store_gram"].default.rich_help_panel == "Kernel"
        assert build(Given.read({"kernel": "rbf", "store_gram": False})).store_gram is False
        with pytest.raises(ParameterError, match="--no-store-gram needs --kernel: drop it; got False"):
            Given.read({"store_gram": False}).check()
        with pytest.raises(ParameterError, match="--no-store-gram is not for --measure: drop it; got False"):
            build(Given.read({"measure": "f1", "store_gram": False}))
    finally:
        OPTIONS.remove(extra)
