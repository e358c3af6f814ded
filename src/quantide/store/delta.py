"""What is used of the library of Delta tables, which only comes with an extra."""

from quantide.errors import MissingPackageError

try:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
    from deltalake.exceptions import DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction
except ImportError as error:
    raise MissingPackageError.of("a store on disk", "deltalake", "history") from error

__all__ = [
    "AddAction",
    "CommitProperties",
    "DeltaError",
    "DeltaTable",
    "PostCommitHookProperties",
    "RemoveAction",
    "Schema",
    "TableNotFoundError",
    "Transaction",
]
