"""Proves that check_layers.py catches what it is there to catch."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
RULES = (TOOLS / "layers.txt").read_text()


class CheckLayers(unittest.TestCase):
    def check(self, files, rules=RULES):
        """Exit status and output for a tree with these files."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in {"tools/layers.txt": rules, **files}.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            Path(root, "src").mkdir(exist_ok=True)
            result = subprocess.run(
                [sys.executable, TOOLS / "check_layers.py", root], capture_output=True, text=True)
            return result.returncode, result.stdout + result.stderr

    def assert_clean(self, files):
        self.assertEqual(self.check(files), (0, ""))

    def assert_refused(self, files, *lines):
        self.assertEqual(self.check(files), (1, "".join(line + "\n" for line in lines)))

    def test_accepts_arrows_that_point_down(self):
        self.assert_clean({
            "src/model/a.cc": '#include "model/a.h"\n#include "base/error.h"\n#include <vector>\n',
            "src/backend/native/a.cc": '#include "backend/box.h"\n#include <seccomp.h>\n',
            "src/cli/a.cc": '#include "backend/native/native.h"\n#include <CLI/CLI.hpp>\n',
        })

    def test_names_file_line_and_both_modules(self):
        self.assert_refused({"src/base/b.cc": '// x\n\n#include "model/a.h"\n'},
                            "src/base/b.cc:3: base may not include model")

    def test_reports_every_violation(self):
        self.assert_refused(
            {"src/wire/a.h": '#include "async/task.h"\n#  include "model/a.h"\n'},
            "src/wire/a.h:1: wire may not include async",
            "src/wire/a.h:2: wire may not include model")

    def test_keeps_concrete_backends_from_those_above(self):
        self.assert_refused(
            {"src/session/a.cc": '#include "backend/box.h"\n#include "backend/native/native.h"\n'},
            "src/session/a.cc:2: session may not include backend/native")

    def test_keeps_backends_apart(self):
        self.assert_refused({"src/backend/native/a.cc": '#include "backend/fake/fake.h"\n'},
                            "src/backend/native/a.cc:1: backend/native may not include backend/fake")

    def test_lets_tests_use_the_fake(self):
        self.assert_clean({"src/session/a_test.cc": '#include "backend/fake/fake.h"\n'})
        self.assert_refused({"src/session/a.cc": '#include "backend/fake/fake.h"\n'},
                            "src/session/a.cc:1: session may not include backend/fake")

    def test_keeps_boost_out_of_the_bottom(self):
        for module in ("base", "wire", "guest"):
            self.assert_refused({f"src/{module}/a.cc": "#include <boost/json.hpp>\n"},
                                f"src/{module}/a.cc:1: {module} may not include <boost>")

    def test_keeps_beast_in_net(self):
        self.assert_clean({"src/net/a.cc": "#include <boost/beast/core.hpp>\n"})
        self.assert_refused({"src/api/rest/a.cc": "#include <boost/beast/core.hpp>\n"},
                            "src/api/rest/a.cc:1: api may not include <boost/beast>")

    def test_keeps_libraries_where_they_belong(self):
        for header in ("yaml-cpp/yaml.h", "sqlite3.h", "seccomp.h", "libmnl/libmnl.h",
                       "nftables/libnftables.h", "archive.h", "archive_entry.h", "CLI/CLI.hpp"):
            status, output = self.check({"src/service/a.cc": f"#include <{header}>\n"})
            self.assertEqual(status, 1, header)
            self.assertIn("service may not include <", output)

    def test_refuses_a_header_without_its_folder(self):
        self.assert_refused({"src/base/a.cc": '#include "a.h"\n'},
                            'src/base/a.cc:1: "a.h" names no module')

    def test_refuses_a_folder_without_a_line(self):
        self.assert_refused({"src/misc/a.cc": ""},
                            "src/misc/a.cc:1: its folder has no line in tools/layers.txt")

    def test_refuses_rules_whose_arrows_point_up(self):
        status, output = self.check({}, rules="base: wire\nwire:\n")
        self.assertEqual(status, 1)
        self.assertIn("tools/layers.txt:1: wire has no line above", output)


if __name__ == "__main__":
    unittest.main()
