import pytest

from tests.tree import Tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "machine")
