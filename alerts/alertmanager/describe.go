package alertmanager

import (
	"cmp"
	_ "embed"
	"reflect"
	"strings"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

// keysFile has what no type says about the keys: a text, an example, and whether they are required.
//
//go:embed keys.txt
var keysFile string

// Shape describes the file that ReadReceivers reads. Names of files are those of the machine on which Alertmanager
// runs.
func Shape() shape.Shape {
	texts := shape.ParseTexts(keysFile)
	d := yamldoc.Describer{
		Duration: slo.FormatDuration, StrictText: true, Each: func(path string, _ reflect.Value, k *shape.Key) {
			k.Text, k.Example, k.Required = texts.Of("", path), texts.Of("example ", path), texts.Of("required ", path) != ""
			k.Default = cmp.Or(texts.Of("default ", path), k.Default)
			class := "^(" + string(Critical) + "|" + string(Warning) + "|" + string(Recovery) + ")$"
			switch path {
			case "version":
				k.Words = []string{FileVersion}
			case "routes", "timing":
				k.Shape.Pattern = class
			case "receivers.pagerduty.severity":
				k.Words = pagerDutySeverities
			case "services":
				k.Of.Pattern = class
			}
			if strings.HasSuffix(path, "_file") {
				k.Note = "file name"
			}
		}}
	var f receiversFile
	s, _ := d.Describe("", &f, "")
	return s
}
