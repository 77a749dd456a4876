package engine

import "github.com/sloengine/sloengine/reliability/fsys"

// The syncs of this package, besides those of fsys.WriteAtomic and of the log.
const (
	// SiteDataDir: the parents of the data folder and of the folders in it.
	SiteDataDir fsys.Site = "ingest.datadir"
	// SiteIDs: the file of a generation of ids, before a manifest tells its length.
	SiteIDs fsys.Site = "ingest.ids"
	// SiteIDsDir: the folder, after the file of a new generation was made in it.
	SiteIDsDir fsys.Site = "ingest.ids.dir"
)

// Sites lists them all.
func Sites() []fsys.Site {
	return []fsys.Site{SiteDataDir, SiteIDs, SiteIDsDir}
}
