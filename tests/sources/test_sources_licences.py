"""Licence spellings of real data sets."""

from __future__ import annotations

import pytest

from mmlake.sources.licences import spdx_licence


@pytest.mark.parametrize(
    "spelling, expected",
    [
        ("CC BY 4.0", "CC-BY-4.0"),
        ("cc-by-4.0", "CC-BY-4.0"),
        ("CC-BY-SA 3.0", "CC-BY-SA-3.0"),
        ("cc_by_nc_sa_4.0", "CC-BY-NC-SA-4.0"),
        ("CC BY-NC-ND 4.0 International", "CC-BY-NC-ND-4.0"),
        ("http://creativecommons.org/licenses/by-nc-sa/2.0/", "CC-BY-NC-SA-2.0"),
        ("https://creativecommons.org/licenses/by/4.0/deed.en", "CC-BY-4.0"),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0"),
        ("Creative Commons Attribution-ShareAlike 4.0 International", "CC-BY-SA-4.0"),
        ("Attribution-NonCommercial License", "LicenseRef-CC-BY-NC"),
        ("Creative Commons Attribution license (reuse allowed)", "LicenseRef-CC-BY"),
        ("CC-BY", "LicenseRef-CC-BY"),
        ("Apache-2.0", "Apache-2.0"),
        ("ofl-1.1", "OFL-1.1"),
        ("GPL-3.0", "GPL-3.0-only"),
        ("etalab-2.0", "etalab-2.0"),
        ("openrail", "NOASSERTION"),
        ("CC-BY-*", "NOASSERTION"),
        ("apache license, version 2.0", "Apache-2.0"),
        ("MIT License", "MIT"),
        ("odc-by", "ODC-By-1.0"),
        ("CC0", "CC0-1.0"),
        ("public domain", "LicenseRef-Public-Domain"),
        ("LicenseRef-mine", "LicenseRef-mine"),
        ("CC BY 9.0", "NOASSERTION"),
        ("cc-by-sa-nc-4.0", "NOASSERTION"),
        ("http://flickr.com/commons/usage/", "NOASSERTION"),
        ("all rights reserved", "NOASSERTION"),
        ("", "NOASSERTION"),
        (4, "NOASSERTION"),
        (None, "NOASSERTION"),
    ],
)
def test_known_spellings_are_spdx_ids_and_others_are_no_assertion(spelling, expected):
    assert spdx_licence(spelling) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MIT OR Apache-2.0", "Apache-2.0 OR MIT"),
        ("(MIT OR GPL-3.0-only) AND CC0-1.0", "CC0-1.0 AND (GPL-3.0-only OR MIT)"),
        ("GPL-2.0-only WITH Classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0"),
        ("CC-BY-4.0 AND LicenseRef-x", "CC-BY-4.0 AND LicenseRef-x"),
        ("MIT AND nonsense", "NOASSERTION"),
        ("MIT OR", "NOASSERTION"),
        ("MIT OR *", "NOASSERTION"),
        ("MIT or something like it", "NOASSERTION"),
    ],
)
def test_an_spdx_expression_is_kept_in_its_one_spelling_and_never_guessed(text: str, expected: str) -> None:
    assert spdx_licence(text) == expected
