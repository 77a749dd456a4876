package config

import (
	"regexp"
	"slices"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

// kind is one of several keys of which one is to be given.
type kind struct {
	name string
	set  bool
}

func given(all ...kind) (names []string) {
	for _, k := range all {
		if k.set {
			names = append(names, k.name)
		}
	}
	return names
}

// oneKind reports whether a thing is of exactly one kind, and tells if it is not. add and none are for one without.
func oneKind(f *yamldoc.Decoder, path string, kinds []string, thing, add, none string) bool {
	switch {
	case len(kinds) == 0:
		f.Errorf(path, add, "%s", none)
	case len(kinds) > 1:
		f.Errorf(path+"."+kinds[1], "define two "+thing+"s", "%s and %s exclude each other", kinds[0], kinds[1])
	}
	return len(kinds) == 1
}

func anyBroken(f *yamldoc.Decoder, path string, keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return f.Broken(path + "." + k) })
}

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
