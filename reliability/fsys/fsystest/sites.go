package fsystest

import (
	"slices"
	"strings"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Sites returns the sites that fsys declares and whose name begins with prefix, so that a test can drop each sync in
// turn. "" means all.
func Sites(prefix string) []fsys.Site {
	all := []fsys.Site{
		fsys.SiteAtomicFile, fsys.SiteAtomicDir, fsys.SiteStateAside,
		fsys.SiteWALAppend, fsys.SiteWALSegment, fsys.SiteWALRoll, fsys.SiteWALMkdir, fsys.SiteWALOpen, fsys.SiteWALRecover,
		fsys.SiteWALTruncate, fsys.SiteWALMark, fsys.SiteWALMarkDir, fsys.SiteWALHead, fsys.SiteWALSalvage,
		fsys.SiteWALQuarantineDir, fsys.SiteWALQuarantineLog, fsys.SiteWALArchive, fsys.SiteWALArchiveFile,
	}
	return slices.DeleteFunc(all, func(s fsys.Site) bool { return !strings.HasPrefix(string(s), prefix) })
}
