"""PyTorch modules in a federation, and SEFL's built-in models as PyTorch modules."""
from sefl.torch.federate import federate, load_state, only, restore, save, state
from sefl.torch.models import WordModel, load
from sefl.torch.vocabulary import Vocabulary

__all__ = [
    "Vocabulary", "WordModel", "federate", "load", "load_state", "only", "restore", "save", "state",
]
