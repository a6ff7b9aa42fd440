"""What pages show is compared with what was printed."""

import pytest

from support.pages import Session, compare, run_page

PRINTED = "a.model: 23 of 1,369 features selected\nlearned 6,000 rows in 1 pass, 2 s (26,201 rows/s)\nloss 0.03315\n"


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED,
        PRINTED.replace("2 s (26,201", "0 s (9.5"),  # another machine
        "...\nloss 0.03315\n",
        "a.model: 23 of 1,369 features selected\n...\n",
    ],
)
def test_what_was_printed_may_be_shown(shown):
    compare(shown, PRINTED, "a page")


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED.replace("23 of", "24 of"),
        PRINTED.replace("0.03315", "0.03314"),
        PRINTED.replace("6,000 rows", "6,001 rows"),
        PRINTED.replace("in 1 pass", "in  1 pass"),
        PRINTED.replace("loss 0.03315\n", ""),
        PRINTED + "more\n",
        "...\nloss 0.3\n",
    ],
)
def test_what_was_not_printed_may_not_be_shown(shown):
    with pytest.raises(AssertionError):
        compare(shown, PRINTED, "a page")


def test_output_behind_commands_that_are_not_run_is_no_output(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\necho 1\n```\n\n<!-- not run: hours -->\n```sh\necho 2\n```\n\n```text\n1\n```\n")
    with pytest.raises(AssertionError, match="line 10: this block is not run"):
        run_page(page, Session(tmp_path))
