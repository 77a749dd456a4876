package fsys

// Site names one kind of sync in production code.
type Site string

// The sites of this package and of reliability/wal. Other packages declare theirs.
const (
	// SiteAtomicFile: the new content, before it is renamed into place.
	SiteAtomicFile Site = "atomic.file"
	// SiteAtomicDir: the folder, after the rename.
	SiteAtomicDir Site = "atomic.dir"

	// SiteWALAppend: a batch of records, before it is acknowledged.
	SiteWALAppend Site = "wal.append"
	// SiteWALSegment: the header of a new segment, before a record goes in.
	SiteWALSegment Site = "wal.segment"
	// SiteWALRoll: the log's folder, after a segment was created in it.
	SiteWALRoll Site = "wal.roll"
	// SiteWALMkdir: the parents of the log's folder.
	SiteWALMkdir Site = "wal.mkdir"
	// SiteWALOpen: the log's folder at start, since the last process may have died
	// between creating a segment and syncing the folder.
	SiteWALOpen Site = "wal.open"
	// SiteWALRecover: the last segment at start, since the last process may have died
	// between writing and syncing, and its records are about to be called durable.
	SiteWALRecover Site = "wal.recover"
	// SiteWALTruncate: the log's folder, after an old segment was unlinked.
	SiteWALTruncate Site = "wal.truncate"
	// SiteWALMark: the marker of the log's durable end, every second.
	SiteWALMark Site = "wal.mark"
	// SiteWALMarkDir: the log's folder, after the marker was created in it.
	SiteWALMarkDir Site = "wal.mark.dir"
	// SiteWALHead: the head of a segment that was written over itself.
	SiteWALHead Site = "wal.head"
	// SiteWALSalvage: a segment with the records behind damage, before it appears.
	SiteWALSalvage Site = "wal.salvage"
	// SiteWALQuarantineDir: the quarantine folder, before segments leave the log's folder.
	SiteWALQuarantineDir Site = "wal.quarantine.dir"
	// SiteWALQuarantineLog: the log's folder, before and after segments were moved aside.
	SiteWALQuarantineLog Site = "wal.quarantine.log"
	// SiteWALArchive: the folder of archived segments and its parents, before the log deletes them.
	SiteWALArchive Site = "wal.archive"
	// SiteWALArchiveFile: an archived segment where it is copied, not linked.
	SiteWALArchiveFile Site = "wal.archive.file"
)
