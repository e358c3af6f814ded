"""Access to the files of a source: a local folder, or object storage with the options of the source."""

from quantide.config import Source
from quantide.store.location import StorageOptions
from quantide.store.object_files import SourceAccess


def source_access(source: Source) -> StorageOptions:
    """Return the access to a source's files, which tasks receive."""
    if source.is_remote or source.format == "iceberg":
        return SourceAccess(dict(source.storage_options), source.is_table)
    return StorageOptions(immutable=source.is_table)
