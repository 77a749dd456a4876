package config

import (
	"regexp"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

// fileNames are the names of a section that become file names and labels. The values are the paths of the items.
type fileNames map[string]string

var fileName = regexp.MustCompile(`^[a-z0-9_-][a-z0-9._-]{0,63}$`)

// check adds the name of an item of a kind. unique is why no other item may have it.
func (n fileNames) check(f *yamldoc.Decoder, path, name, kind, unique string) {
	switch first, twice := n[name]; {
	case f.Broken(path + ".name"):
	case !fileName.MatchString(name):
		f.Errorf(path+".name",
			"want 1 to 64 of a-z, 0-9, '.', '_' and '-', not starting with '.', because it becomes a file name and a label",
			"invalid %s name %q", kind, name)
	case twice:
		f.Errorf(path+".name", unique, "%s already has this name", first)
	default:
		n[name] = path
	}
}
