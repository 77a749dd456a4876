package yamldoc

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// toggle is a type that reads itself.
type toggle struct{ On bool }

func (s *toggle) DecodeYAML(d *Decoder, v *Value, tag reflect.StructTag) {
	var word string
	if d.DecodeTagged(v, &word, `one:"on off"`) {
		s.On = word == "on"
	}
}

type upper string

func (u *upper) UnmarshalText(text []byte) error {
	*u = upper(strings.ToUpper(string(text)))
	return nil
}

type common struct {
	Timeout time.Duration `yaml:"timeout" min:"1ms" max:"1h"`
}

type sink struct {
	Name   string `yaml:"name" is:"required"`
	File   string `yaml:"file" is:"file"`
	common `yaml:",inline"`
}

type settingsDoc struct {
	Level  int               `yaml:"level" min:"1" max:"9"`
	Ratio  float64           `yaml:"ratio" above:"0" max:"1"`
	Body   int64             `yaml:"max_body" is:"size" min:"1KiB"`
	Mode   string            `yaml:"mode" one:"fast safe"`
	On     *bool             `yaml:"on"`
	Toggle toggle            `yaml:"toggle"`
	Word   upper             `yaml:"word"`
	Hosts  OneOrList[string] `yaml:"hosts"`
	Names  map[string]int    `yaml:"names"`
	Port   uint16            `yaml:"port"`
	Redis  *common           `yaml:"redis"`
	Sinks  []sink            `yaml:"sinks"`
	Log    func()            // not a setting
}

func decodeDoc(t *testing.T, text string, prefill func(any)) (settingsDoc, *Decoder, Problems) {
	t.Helper()
	var r Reader
	into := settingsDoc{Level: 3, Mode: "fast"}
	d := &Decoder{Dir: "/etc", Duration: time.ParseDuration, Prefill: prefill}
	if v := r.Document("f", []byte(text)); v != nil {
		d.Decode(v, &into)
	}
	return into, d, r.Problems()
}

func TestDecode(t *testing.T) {
	got, d, ps := decodeDoc(t, `
level: 5
ratio: 0.5
max_body: 64KiB
on: true
toggle: on
word: abc
hosts: a
names: {x: 1, y: 2}
port: 80
redis: {}
sinks:
  - &first {name: a, file: b, timeout: 5s}
  - {<<: *first, name: c}
`, func(into any) {
		if c, ok := into.(*common); ok {
			c.Timeout = time.Minute
		}
	})
	require.Empty(t, ps)
	on := true
	require.Equal(t, settingsDoc{
		Level: 5, Ratio: 0.5, Body: 64 << 10, Mode: "fast", On: &on, Toggle: toggle{true}, Word: "ABC", Hosts: []string{"a"},
		Names: map[string]int{"x": 1, "y": 2}, Port: 80, Redis: &common{time.Minute},
		Sinks: []sink{{"a", "/etc/b", common{5 * time.Second}}, {"c", "/etc/b", common{5 * time.Second}}},
	}, got)
	require.True(t, d.Has("sinks[1].name"))
	require.False(t, d.Has("mode"))
	require.Equal(t, Position{"f", 13, 5}, d.At("sinks[0].nothing").At())
}

func TestDecodeReportsAllProblems(t *testing.T) {
	for text, want := range map[string]string{
		"levl: 5":                    `f:1:1: unknown key "levl" (did you mean "level"?)`,
		"level: 0":                   `f:1:8: level: must be at least 1, got "0"`,
		"level: x":                   `f:1:8: level: want a whole number, got "x"`,
		"level: [1]":                 `f:1:8: level: want a whole number, got a list`,
		"level:":                     `f:1:7: level: want a whole number, got nothing (leave the key out for the default)`,
		"ratio: 0":                   `f:1:8: ratio: must be more than 0, got "0"`,
		"ratio: .nan":                `f:1:8: ratio: want a number, got ".nan"`,
		"max_body: 64":               `f:1:11: max_body: must be at least 1KiB, got "64"`,
		"max_body: 1x":               `f:1:11: max_body: "1x": want a size such as 65536, 64KiB, 16MiB or 1GiB`,
		"mode: fats":                 `f:1:7: mode: unknown value "fats" (did you mean "fast"?)`,
		"mode: slow":                 `f:1:7: mode: unknown value "slow" (want fast or safe)`,
		"on: maybe":                  `f:1:5: on: want true or false, got "maybe"`,
		"toggle: x":                  `f:1:9: toggle: unknown value "x" (want on or off)`,
		"port: 70000":                `f:1:7: port: want a whole number, got "70000"`,
		"hosts: [a, {}]":             `f:1:12: hosts[1]: want text, got a mapping`,
		"names: {x: y}":              `f:1:12: names.x: want a whole number, got "y"`,
		"redis:":                     `f:1:7: redis: the value is empty (write {} for the defaults, or leave it out)`,
		"redis: {timeout: 2h}":       `f:1:18: redis.timeout: must be at most 1h, got "2h"`,
		"sinks: {}":                  `f:1:8: sinks: want a list, got a mapping (write [a, b], or each item with a dash)`,
		"sinks: [{}]":                `f:1:9: sinks[0].name: missing`,
		"sinks: [{name: a, nam: b}]": `f:1:19: sinks[0]: unknown key "nam" (did you mean "name"?)`,
		"level: 1\nlevel: 2":         `f:2:1: duplicate key "level" (first defined on line 1, keep one)`,
		"- a":                        `f:1:1: want a mapping (key: value), got a list`,
		"level: 1\n---\nlevel: 2":    `f:3:1: the file has a second YAML document (merge them into one document)`,
		"level: 0\nsinks: [{timeout: x}, 5]": "f:1:8: level: must be at least 1, got \"0\"\nf:2:9: sinks[0].name: " +
			"missing\nf:2:19: sinks[0].timeout: time: invalid duration \"x\"\nf:2:23: sinks[1]: want a mapping (key: value), " +
			"got \"5\"",
		"level: [": `f:1:1: not valid YAML: did not find expected node content (check ` +
			`indentation, quotes and colons around here)`,
		"log: x": `f:1:1: unknown key "log" (known keys: level, ratio, max_body, mode, on, ` +
			`toggle, word, hosts, names, port, redis, sinks)`,
		"redis: &r {timeout: 2h}\nhosts: *r\n": "f:1:8: hosts[0]: want text, got a mapping\nf:1:21: redis.timeout: must be " +
			"at most 1h, got \"2h\"",
	} {
		_, _, ps := decodeDoc(t, text, nil)
		require.EqualError(t, ps.Err(), want, text)
	}
}

// A check of the whole speaks of a value where it is written, and not of one that could not be read.
func TestDecoderErrorsByPath(t *testing.T) {
	_, d, ps := decodeDoc(t, "sinks:\n  - name: a\n    timeout: x\n", nil)
	require.Len(t, ps, 1)
	require.True(t, d.Broken("sinks[0].timeout"))
	require.True(t, d.Broken("sinks[0]"))
	require.True(t, d.Broken("sinks"))
	require.False(t, d.Broken("sinks[0].name"))
	require.False(t, d.Broken("sink"))
	r := d.root.file.Reader
	d.Errorf("sinks[0].file", "add it", "a file is missing")
	d.Errorf("redis.timeout", "", "too long")
	require.EqualError(
		t, r.Problems().Err(), "f:1:1: redis.timeout: too long\nf:2:5: sinks[0].file: a file is missing (add it)\n"+
			`f:3:14: sinks[0].timeout: time: invalid duration "x"`)
}

// Alternatives of a value, such as by environment, are all read, and one of them is taken.
func TestDecodeChoose(t *testing.T) {
	var r Reader
	d := &Decoder{}
	d.Choose = func(v *Value, into reflect.Value, valid func(*Value) bool) (chosen *Value) {
		if !v.IsMapping() || !into.CanInt() {
			return v
		}
		o := d.Open(v)
		for _, k := range o.Keys {
			if x := o.Field(k); valid(x) && k == "test" {
				chosen = x
			}
		}
		return chosen
	}
	var into struct {
		N int `yaml:"n"`
	}
	d.Decode(r.Document("f", []byte("n: {test: 4, other: x}")), &into)
	require.Equal(t, 4, into.N)
	require.EqualError(t, r.Problems().Err(), `f:1:21: n.other: want a whole number, got "x"`)
}

func TestDecodeQuotesNoSecrets(t *testing.T) {
	for _, text := range []string{"hunter2", "a: *hunter2", "a: [hunter2]", "- hunter2", "n: hunter2"} {
		r := Reader{Options: Options{Secret: true}}
		var into struct {
			N int               `yaml:"n"`
			A map[string]string `yaml:"a"`
		}
		if v := r.Document("f", []byte(text)); v != nil {
			(&Decoder{StrictText: true}).Decode(v, &into)
		}
		require.Error(t, r.Problems().Err())
		require.NotContains(t, r.Problems().String(), "hunter2")
	}
}

func TestDecodeStrictText(t *testing.T) {
	var r Reader
	var into struct {
		Name string `yaml:"name"`
	}
	(&Decoder{StrictText: true}).Decode(r.Document("f", []byte("name: 1")), &into)
	require.EqualError(t, r.Problems().Err(), `f:1:7: name: want text, got "1"`)
}
