package fsys

import (
	"encoding/json"
	"fmt"
)

// CheckVersion refuses a JSON file whose field version is above newest. what the file holds begins
// the error, which wraps [ErrNewer]. Nothing else is an error here: whoever reads the file finds out
// whether it is missing or damaged, and what that costs.
func CheckVersion(what, name string, newest int) error {
	data, _ := ReadFile(name, MaxStateBytes)
	var head struct{ Version int }
	_ = json.Unmarshal(data, &head)
	if head.Version <= newest {
		return nil
	}
	return fmt.Errorf("%s: %s has format %d, and this program reads formats up to %d: %w", what, name, head.Version, newest, ErrNewer)
}
