package alertmanager

import (
	"errors"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// FileVersion is the version key of a file of receivers.
const FileVersion = "sloengine/receivers/v1"

// receiversFile is the file as it is written.
type receiversFile struct {
	Version   string `yaml:"version"`
	Receivers `yaml:",inline"`
}

// ReadReceivers reads a file of receivers strictly: unknown and repeated keys, a second document and whatever Validate
// refuses are errors, all of which are returned at once, each a *yamldoc.Error. The name of the file is for messages
// only.
func ReadReceivers(name string, data []byte) (*Receivers, error) {
	r := yamldoc.Reader{Options: yamldoc.Options{Secret: true}}
	doc := r.Document(name, data)
	if doc == nil {
		if r.Errors() == 0 {
			r.Errorf(yamldoc.Position{File: name}, "", "the file is empty")
		}
		return nil, r.Problems().Err()
	}
	var f receiversFile
	d := yamldoc.Decoder{StrictText: true, Duration: slo.ParseDuration}
	d.Decode(doc, &f)
	if f.Version != FileVersion && doc.IsMapping() {
		d.Errorf("version", "", "want %s", FileVersion)
	}
	if r.Errors() == 0 {
		f.validate(&d)
	}
	if err := r.Problems().Err(); err != nil {
		return nil, err
	}
	return &f.Receivers, nil
}

// validate reports the errors of Validate where their fields are written.
func (f *receiversFile) validate(d *yamldoc.Decoder) {
	joined, ok := f.Validate().(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, err := range joined.Unwrap() {
		var field *FieldError
		if errors.As(err, &field) {
			d.Errorf(field.Path, "", "%s", field.Message)
		}
	}
}
