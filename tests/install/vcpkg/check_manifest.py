# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Checks a vcpkg.json against the fields that vcpkg documents.

Usage: check_manifest.py VCPKG_JSON VERSION
"""

import json
import re
import sys

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
PLATFORM = re.compile(r"[a-z0-9!&|,() ]+")
VERSIONS = {"version", "version-semver", "version-date", "version-string"}
TOP = VERSIONS | {"name", "port-version", "maintainers", "summary", "description", "homepage", "documentation",
                  "license", "supports", "dependencies", "features", "default-features", "builtin-baseline",
                  "overrides", "configuration"}
DEPENDENCY = {"name", "features", "default-features", "host", "platform", "version>="}
FEATURE = {"description", "dependencies", "supports", "license"}


def mistakes(manifest, version):
    def fields(where, found, known):
        for field in found:
            if field not in known and not field.startswith("$"):
                yield f"{where} has the field {field}, which vcpkg does not know"

    def dependencies(where, found):
        for dependency in found:
            if isinstance(dependency, str):
                dependency = {"name": dependency}
            yield from fields(f"a dependency of {where}", dependency, DEPENDENCY)
            if not NAME.fullmatch(dependency.get("name", "")):
                yield f"{where} depends on {dependency.get('name')!r}, which is no name of a port"
            if not isinstance(dependency.get("host", False), bool):
                yield f"'host' of {dependency['name']} must be true or false"

    yield from fields("the manifest", manifest, TOP)
    if not NAME.fullmatch(manifest.get("name", "")):
        yield "'name' must consist of lower-case letters, digits and hyphens"
    given = VERSIONS & manifest.keys()
    if len(given) != 1:
        yield f"there must be one of {sorted(VERSIONS)}, not {sorted(given)}"
    elif manifest[given.pop()] != version:
        yield f"the version must be {version}, as in version.hpp"
    if not manifest.get("description"):
        yield "a port needs a description"
    if manifest.get("license") != "Apache-2.0":
        yield "'license' must be Apache-2.0"
    if not PLATFORM.fullmatch(manifest.get("supports", "linux")):
        yield "'supports' is no expression of platforms"
    yield from dependencies("the manifest", manifest.get("dependencies", []))
    for name, feature in manifest.get("features", {}).items():
        if not NAME.fullmatch(name):
            yield f"the feature {name!r} must consist of lower-case letters, digits and hyphens"
        yield from fields(f"the feature {name}", feature, FEATURE)
        if not feature.get("description"):
            yield f"the feature {name} needs a description"
        yield from dependencies(f"the feature {name}", feature.get("dependencies", []))


def main(path, version):
    with open(path, encoding="utf-8") as file:
        found = list(mistakes(json.load(file), version))
    # That this program refuses anything at all.
    for broken in ({"name": "Muster"}, {"name": "muster", "numbers": "1"}):
        if not list(mistakes(broken, version)):
            found.append(f"check_manifest.py accepts {broken}")
    for mistake in found:
        print(f"{path}: {mistake}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
