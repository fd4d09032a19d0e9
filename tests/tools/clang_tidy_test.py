# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""tools/clang_tidy.py: which files clang-tidy looks at.  clang_tidy_test.py <compiler>"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / 'tools/clang_tidy.py'
COMPILER = 'c++'

# Finds the word BAD. Says in the file `looked` at what it has looked.
FAKE = '''#!/bin/sh
[ "$1" != --version ] || { cat version; exit 0; }
for file; do :; done
echo "$file" >>looked
echo "2 warnings generated." >&2
! grep BAD "$file"
'''


class ClangTidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name) / 'cache'
        self.root = self.checkout(pathlib.Path(folder.name) / 'one')

    def checkout(self, root):
        (root / 'build').mkdir(parents=True)
        files = {'a.cc': '#include "a.h"\nint a() { return A; }\n', 'a.h': '#define A 1\n', 'b.cc': 'int b;\n',
                 'clang-tidy': FAKE, 'version': '14', '.clang-tidy': 'Checks: all\n'}
        for name, text in files.items():
            (root / name).write_text(text)
        (root / 'clang-tidy').chmod(0o755)
        units = [{'directory': str(root / 'build'), 'file': str(root / name),
                  'command': f'{COMPILER} -I{root} -o {name}.o -c {root}/{name}'} for name in ('a.cc', 'b.cc')]
        (root / 'build/compile_commands.json').write_text(json.dumps(units))
        return root

    def looks_at(self, *files, root=None, cache=None):
        """The files looked at, and the status."""
        root = root or self.root
        looked = root / 'looked'
        looked.unlink(missing_ok=True)
        environment = dict(os.environ, WEFT_LINT_CACHE=str(self.cache) if cache is None else cache, JOBS='1')
        done = subprocess.run([sys.executable, '-B', TOOL, './clang-tidy', 'build', *files], cwd=root, check=False,
                              env=environment, stdout=subprocess.PIPE, text=True)
        self.said = done.stdout
        return (looked.read_text().split() if looked.exists() else []), done.returncode

    def test_a_file_found_clean_is_left_out(self):
        self.assertEqual(self.looks_at('a.cc', 'b.cc'), (['a.cc', 'b.cc'], 0))
        self.assertEqual(self.looks_at('a.cc', 'b.cc'), ([], 0))
        self.assertEqual(self.looks_at('a.cc', cache=''), (['a.cc'], 0))

    def test_what_it_sees_has_changed(self):
        self.looks_at('a.cc', 'b.cc')
        changes = [('a.h', '#define A 2\n'), ('a.h', '#define A 2\n#define B\n'), ('a.h', '#define A 2\n#define B 1 // x\n'),
                   ('a.h', '#define A 2\n#define B 1 // x\n// NOLINTNEXTLINE\n'),
                   ('a.cc', '#include "a.h"\nint a() { return A; }  // NOLINT\n')]
        for name, text in changes:
            (self.root / name).write_text(text)
            self.assertEqual(self.looks_at('a.cc', 'b.cc'), (['a.cc'], 0), text)
        for name, text in [('.clang-tidy', 'Checks: none\n'), ('version', '15')]:
            (self.root / name).write_text(text)
            self.assertEqual(self.looks_at('a.cc', 'b.cc'), (['a.cc', 'b.cc'], 0), name)

    def test_what_it_does_not_see_has_changed(self):
        self.looks_at('a.cc', 'b.cc')
        for text in ('// Of a.\n#define A 1\n', '// Of a, another one.\n\n  // And a line.\n#define A 1\n'):
            (self.root / 'a.h').write_text(text)
            self.assertEqual(self.looks_at('a.cc', 'b.cc'), ([], 0), text)

    def test_nothing_is_preprocessed_while_no_file_has_changed(self):
        compiler = self.root / 'compiler'
        compiler.write_text(f'#!/bin/sh\necho >>{self.root}/preprocessed\nexec {COMPILER} "$@"\n')
        compiler.chmod(0o755)
        units = self.root / 'build/compile_commands.json'
        units.write_text(units.read_text().replace(f'"{COMPILER} ', f'"{compiler} '))

        def preprocessed():
            runs = self.root / 'preprocessed'
            runs.unlink(missing_ok=True)
            self.looks_at('a.cc', 'b.cc')
            return len(runs.read_text().splitlines()) if runs.exists() else 0

        self.assertEqual(preprocessed(), 2)
        self.assertEqual(preprocessed(), 0)
        (self.root / 'a.h').write_text('// Of a.\n#define A 1\n')
        self.assertEqual(preprocessed(), 1)
        self.assertEqual(preprocessed(), 0)
        (self.root / 'a.h').unlink()
        self.assertEqual(preprocessed(), 1)

    def test_findings_are_found_again(self):
        (self.root / 'b.cc').write_text('int BAD;\n')
        for _ in range(2):
            self.assertEqual(self.looks_at('a.cc', 'b.cc')[1], 1)
            self.assertIn('int BAD', self.said)
            self.assertNotIn('warnings generated', self.said)
        self.assertEqual(self.looks_at('b.cc'), (['b.cc'], 1))

    def test_a_file_without_a_command_or_that_does_not_compile_is_looked_at(self):
        (self.root / 'c.cc').write_text('int c;\n')
        (self.root / 'b.cc').write_text('#include "missing.h"\n')
        for _ in range(2):
            self.assertEqual(self.looks_at('b.cc', 'c.cc'), (['b.cc', 'c.cc'], 0))

    def test_another_checkout_has_the_same_files(self):
        self.looks_at('a.cc', 'b.cc')
        other = self.checkout(self.root.parent / 'another')
        self.assertEqual(self.looks_at('a.cc', 'b.cc', root=other), ([], 0))


if __name__ == '__main__':
    if len(sys.argv) > 1:
        COMPILER = sys.argv.pop(1)
    unittest.main()
