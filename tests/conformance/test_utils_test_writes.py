"""What Kafka's UtilsTest asks of deleting files."""

import pytest

from engine.writing.disk import DISK, Disk


@pytest.mark.conformance("UtilsTest.testRecursiveDelete")
def test_recursive_delete(tmp_path):
    file = tmp_path / "file"
    file.touch()
    DISK.remove_tree(file)
    assert not file.exists()
    folder = tmp_path / "folder"
    (folder / "a" / "c").mkdir(parents=True)
    (folder / "b").mkdir()
    DISK.remove_tree(folder)
    assert list(tmp_path.iterdir()) == []
    DISK.remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.conformance("UtilsTest.testRecursiveDeleteWithDeletedFile")
def test_recursive_delete_with_deleted_file(tmp_path):
    class Vanishing(Disk):
        """What it lists is gone when somebody looks at it."""

        def list(self, path):
            names = super().list(path)
            for name in names:
                DISK.remove_tree(f"{path}/{name}")
            return names

    folder = tmp_path / "folder"
    (folder / "a").mkdir(parents=True)
    (folder / "file").touch()
    Vanishing().remove_tree(folder)
    assert not folder.exists()
