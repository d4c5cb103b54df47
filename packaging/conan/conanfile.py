# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""The recipe of muster for Conan 2.

In a checkout of muster, `conan create packaging/conan` packages that checkout. Elsewhere, say where the archive of a
release is: `conan create . --version 0.1.0 -c user.muster:source_url=URL -c user.muster:source_sha256=SUM`.
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanException, ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, get, load

PARTS = {"base": (), "queue": ("base",), "fiber": ("base",), "combine": ("fiber",), "fork": ("base",),
         "gpu": ("base",), "syscall": ("fiber",)}


class MusterConan(ConanFile):
    name = "muster"
    description = "Queues, combining, fork/join, GPU memory and sandboxes for programs with many threads on one machine"
    license = "Apache-2.0"
    topics = ("concurrency", "queue", "lock-free", "fork-join", "sandbox", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"fork_engine": ["watermark", "barrier"]}
    default_options = {"fork_engine": "watermark"}
    no_copy_source = True

    def _checkout(self):
        """The sources that this recipe lies in, or None when it lies alone."""
        top = os.path.join(self.recipe_folder, "..", "..")
        return top if os.path.isfile(os.path.join(top, "include", "muster", "version.hpp")) else None

    def set_version(self):
        top = self._checkout()
        if top is not None:
            text = load(self, os.path.join(top, "include", "muster", "version.hpp"))
            found = ".".join(re.findall(r"^#define MUSTER_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", text, re.M))
            if self.version and self.version != found:
                raise ConanException(f"muster: this checkout has version {found}, not {self.version}")
            self.version = found

    def export_sources(self):
        top = self._checkout()
        if top is not None:
            for pattern in ("include/muster/*", "LICENSE"):
                copy(self, pattern, src=top, dst=self.export_sources_folder)

    def source(self):
        if os.path.isdir(os.path.join(self.source_folder, "include")):
            return
        url = self.conf.get("user.muster:source_url")
        if not url:
            raise ConanException("muster: this recipe is outside of a checkout, so it needs an archive: "
                                 "-c user.muster:source_url=URL -c user.muster:source_sha256=SUM")
        get(self, url, sha256=self.conf.get("user.muster:source_sha256"), strip_root=True)

    def layout(self):
        self.folders.source = "."

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"muster needs Linux, not {self.settings.os}")
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        for ending in ("hpp", "cuh"):
            copy(self, f"muster/*.{ending}", src=os.path.join(self.source_folder, "include"),
                 dst=os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "muster")
        self.cpp_info.set_property("pkg_config_name", "muster")
        # The names of an installed muster: muster::muster has all parts.
        self.cpp_info.set_property("cmake_target_name", "muster::muster")
        for part, needs in PARTS.items():
            component = self.cpp_info.components[part]
            component.set_property("cmake_target_name", f"muster::{part}")
            component.set_property("pkg_config_name", f"muster-{part}")
            component.requires = list(needs)
            component.bindirs = []
            component.libdirs = []
            component.system_libs = ["pthread"]
            component.cxxflags = ["-pthread"]
        if self.options.fork_engine == "barrier":
            self.cpp_info.components["fork"].defines = ["MUSTER_FORK_BARRIER"]
