"""Every part of a policy as a table, those included that nobody has thought of yet."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.plain.policy_table import NAME, SETTING, VALUE, cell, sections
from console.plain.policy_toml import to_toml
from control_plane.contracts.policy import Limits, Policy
from control_plane.contracts.policy_document import document_of
from control_plane.contracts.routing import Routing


def test_the_policy_as_it_is() -> None:
    policy = Policy(version=3, tenants={"acme": Limits(tpm=5000)}, routing=Routing("balanced"))
    found = {section.name: section for section in sections(document_of(policy))}
    assert next(iter(found)) == ""
    top, tiers, tenants, routing = (found[name] for name in ("", "tiers", "tenants", "routing"))
    assert (top.name, top.columns) == ("", (SETTING, VALUE))
    assert ("version", "3") in top.rows
    assert tiers.columns[0] == NAME
    assert [row[0] for row in tiers.rows] == ["enterprise", "paid", "free"]
    enterprise = dict(zip(tiers.columns, tiers.rows[0], strict=True))
    assert (enterprise["RPM"], enterprise["MODELS"], enterprise["QUEUE_DEADLINE_S"]) == ("–", "all", "60")
    assert tenants.rows == (("acme", "5,000"),)
    assert ("profile", "balanced") in routing.rows


def test_parts_that_are_to_come() -> None:
    document: dict[str, Any] = {
        "routing": {
            "profile": "mine",
            "profiles": {"mine": {"prefix_cache": 2.0, "kv_headroom": 0.5}, "other": {"kv_headroom": 1}},
            "aliases": {"gpt-4": "big", "fast": "small"},
            "auto": {"steps": [{"below": 200, "model": "small"}, {"model": "big"}]},
        },
        "admission": {"bands": {"watch": {"from": 0.75}, "busy": {"from": 0.8, "tiers": {"free": "shed"}}}},
        "empty": {},
    }
    found = {section.name: section for section in sections(document)}
    assert list(found) == [
        "routing", "routing.profiles", "routing.aliases", "routing.auto", "admission.bands", "empty",
    ]  # fmt: skip
    assert found["routing.profiles"].columns == (NAME, "PREFIX_CACHE", "KV_HEADROOM")
    assert found["routing.profiles"].rows == (("mine", "2", "0.5"), ("other", "–", "1"))
    assert found["routing.aliases"].rows == (("gpt-4", "big"), ("fast", "small"))
    assert "small" in found["routing.auto"].rows[0][1]
    assert found["admission.bands"].rows == (("watch", "0.75", "–"), ("busy", "0.8", "shed"))
    assert found["empty"].rows == ()
    assert tomllib.loads(to_toml(document)) == document


def test_what_only_some_have_stands_where_it_does_in_theirs() -> None:
    [section] = sections({"tiers": {"a": {"first": 1, "last": 2}, "b": {"first": 1, "rpm": 5, "tpm": 6, "last": 2}}})
    assert section.columns == (NAME, "FIRST", "RPM", "TPM", "LAST")


def test_rows_and_columns_change_about_where_only_that_fits() -> None:
    [section] = sections({"tiers": {"a": {"quite_a_long_setting": 1, "another_long_setting": 2}, "b": {"third": 3}}})
    assert section.fitted(None) is section
    assert section.fitted(200) is section
    turned = section.fitted(40)
    assert turned.columns == (SETTING, "a", "b")
    assert turned.rows[0] == ("third", "–", "3") or turned.rows[0] == ("quite_a_long_setting", "1", "–")
    assert {row[0] for row in turned.rows} == {"quite_a_long_setting", "another_long_setting", "third"}
    assert section.fitted(10) is section, "nothing fits"


def test_cells() -> None:
    assert [cell(value) for value in (True, 1234567, 0.25, None, [], ["a", "b"], "x")] == [
        "yes", "1,234,567", "0.25", "–", "–", "a, b", "x",
    ]  # fmt: skip


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="."), min_size=1, max_size=8)
scalars = st.one_of(
    st.booleans(), st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False), names
)
values = st.recursive(
    st.one_of(
        scalars, st.lists(scalars, max_size=3), st.lists(st.dictionaries(names, scalars, max_size=2), max_size=2)
    ),
    lambda inner: st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(names, values, max_size=4)


@given(documents)
def test_any_document_comes_back_from_its_toml_and_every_value_is_in_its_tables(document: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(document)) == document
    shown = [text for section in sections(document) for row in section.rows for text in row]

    def leaves(value: dict[str, Any]) -> list[str]:
        return [
            text
            for name, entry in value.items()
            for text in (leaves(entry) if isinstance(entry, dict) else [cell(entry, name)])
        ]

    for text in leaves(document):
        assert text in shown
    for section in sections(document):
        assert all(len(row) == len(section.columns) for row in section.rows)
