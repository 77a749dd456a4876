package config

import (
	"errors"
	"fmt"

	"github.com/sloengine/sloengine/ingest/redact"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// redactRule takes personal data out of events.
type redactRule struct {
	redact.Rule `yaml:",inline"`
	KeyFile     string `yaml:"key_file" is:"file"`
}

func (r *redactRule) rule() (rule redact.Rule, err error) {
	rule = r.Rule
	if r.KeyFile != "" {
		rule.Key, err = readSecret(r.KeyFile, redact.MinKeyBytes)
	}
	return rule, err
}

func (c *Config) checkRedact(f *yamldoc.Decoder) {
	for i := range c.Redact {
		r, path := &c.Redact[i], item("redact", i)
		rule, err := r.rule()
		if err != nil {
			f.Errorf(path+".key_file", "", "%v", err)
		}
		if r.Action == redact.Hash && r.KeyFile == "" {
			f.Errorf(path, "create one with: openssl rand -hex 32 > redact.key", "action hash requires key_file")
		}
		for _, err := range rule.Check() {
			var e *redact.FieldError
			if !errors.As(err, &e) {
				continue
			}
			at := path + "." + e.Field
			switch {
			case e.Field == "key" && r.Action == redact.Hash:
				continue // told above
			case e.Field == "key":
				at = path + ".key_file"
			case e.Index >= 0:
				at = item(at, e.Index)
			}
			if !f.Broken(at) {
				f.Errorf(at, "", "%v", e.Err)
			}
		}
	}
}

// Redactor makes what takes personal data out of events. Without rules it leaves all
// as it is.
func (c *Config) Redactor(m *redact.Metrics) (*redact.Redactor, error) {
	rules := make([]redact.Rule, len(c.Redact))
	for i := range c.Redact {
		var err error
		if rules[i], err = c.Redact[i].rule(); err != nil {
			return nil, fmt.Errorf("redact[%d].key_file: %w", i, err)
		}
	}
	return redact.New(rules, m)
}
