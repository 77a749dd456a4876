package main

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/sloengine/sloengine/web/site"
	"github.com/stretchr/testify/require"
)

func TestVersionOf(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"},
			{Key: "vcs.time", Value: "2026-11-24T10:00:00Z"}, {Key: "vcs.modified", Value: modified}}
	}
	for name, c := range map[string]struct {
		info   debug.BuildInfo
		linked site.Version
		want   site.Version
	}{
		"go install": {info: debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}}, want: site.Version{Version: "0.2.0"}},
		"a checkout": {
			info: debug.BuildInfo{Main: debug.Module{Version: "v0.2.1-0.20261124100000-0123456789ab"}, Settings: vcs("false")},
			want: site.Version{Version: "0.2.1-0.20261124100000-0123456789ab", Revision: "0123456789ab",
				Date: "2026-11-24T10:00:00Z"},
		},
		"a changed checkout": {
			info: debug.BuildInfo{Main: debug.Module{Version: "v0.2.0+dirty"}, Settings: vcs("true")},
			want: site.Version{Version: "0.2.0+dirty", Revision: "0123456789ab-dirty", Date: "2026-11-24T10:00:00Z"},
		},
		"a container": {
			info:   debug.BuildInfo{Main: debug.Module{Version: "(devel)"}},
			linked: site.Version{Version: "v0.2.0", Revision: "abc", Date: "2026-11-24"},
			want:   site.Version{Version: "0.2.0", Revision: "abc", Date: "2026-11-24"},
		},
		"a test binary": {info: debug.BuildInfo{Main: debug.Module{Version: "(devel)"}},
			want: site.Version{Version: "devel"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Go = runtime.Version()
			require.Equal(t, c.want, versionOf(&c.info, c.linked))
		})
	}
}
