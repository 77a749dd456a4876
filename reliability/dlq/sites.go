package dlq

import "github.com/sloengine/sloengine/reliability/fsys"

// The syncs of the file store, besides those of fsys.WriteAtomic in compaction.
const (
	// SiteMkdir: the parents of the root and of day folders.
	SiteMkdir fsys.Site = "dlq.mkdir"
	// SiteAppend: entries and removals, before they are acknowledged.
	SiteAppend fsys.Site = "dlq.append"
	// SiteSegmentDir: the day folder, after a segment was made in it.
	SiteSegmentDir fsys.Site = "dlq.segment.dir"
	// SiteRecover: the last segment at start, since the last process may have died between
	// writing and syncing, and its entries are about to be shown.
	SiteRecover fsys.Site = "dlq.recover"
	// SiteRecoverDir: the day folder of the last segment at start, for the same reason.
	SiteRecoverDir fsys.Site = "dlq.recover.dir"
	// SiteRemoveDir: the day folder, after a segment was removed and before the removals
	// that later segments hold for it are dropped.
	SiteRemoveDir fsys.Site = "dlq.remove.dir"
)
