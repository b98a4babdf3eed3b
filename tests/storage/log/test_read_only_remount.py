"""A record log whose file system becomes read-only while it is open, as after an error of the disk.

It takes seconds and needs root, so it is a part of C{make faults} alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.faults import IS_THOROUGH
from tests.patience import DEADLINE
from tests.storage.mounts import PROJECT

TOOLS = ("unshare", "mkfs.ext4", "e2fsck", "mount", "umount")


class ReadOnlyRemountTests(SynchronousTestCase):
    """A real ext4 on a loop device, which only root can have."""

    if IS_THOROUGH:

        def test_remount(self) -> None:
            """After a repair of the file system what was confirmed is there, and what was refused is not."""
            if (
                os.getuid() != 0
                or not all(map(shutil.which, TOOLS))
                or not Path("/dev/loop-control").exists()
            ):
                raise SkipTest(f"needs root, loop devices, and {', '.join(TOOLS)}")
            directory = Path(self.mktemp()).absolute()
            directory.mkdir()
            done = subprocess.run(
                ["unshare", "--mount", sys.executable, "-m", "tests.storage.remount_child", str(directory)],
                cwd=PROJECT,
                capture_output=True,
                text=True,
                timeout=DEADLINE,
            )
            self.assertEqual(done.stderr, "")
            found = json.loads(done.stdout)
            for error in found["errors"]:
                self.assertRegex(
                    error, "segment-[0-9]+: cannot write: Read-only file system; make its file system"
                )
            self.assertEqual(found["read"], len(found["stored"]))
            self.assertIn(found["repaired"], (0, 1))
            self.assertEqual(found["left"], found["stored"])
            self.assertTrue(all(found["intact"]))
