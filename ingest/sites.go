package ingest

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

// syncError marks a failed sync. What it was about may or may not be on disk,
// and no second try can tell.
type syncError struct{ err error }

func (e *syncError) Error() string { return e.err.Error() }
func (e *syncError) Unwrap() error { return e.err }
