package checkpoint

import "github.com/sloengine/sloengine/reliability/fsys"

// The syncs of the data folder, besides those of fsys.WriteAtomic and of the log. Tests leave out one at a time, to
// show that each is needed.
const (
	// SiteDataDir is that of the data folder's parents and of the folders in it.
	SiteDataDir fsys.Site = "ingest.datadir"
	// SiteIDs is that of an id file, before a manifest names its length.
	SiteIDs fsys.Site = "ingest.ids"
	// SiteIDsDir is that of the folder, after a file of ids was created in it.
	SiteIDsDir fsys.Site = "ingest.ids.dir"
)
