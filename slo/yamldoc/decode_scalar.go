package yamldoc

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func isScalar(into reflect.Value) bool {
	if into.Addr().Type().Implements(textType) {
		return true
	}
	switch into.Kind() {
	case reflect.Struct, reflect.Pointer, reflect.Slice, reflect.Map:
		return false
	}
	return true
}

// decodeScalar reads a single value. On an error the default stays.
func (d *Decoder) decodeScalar(v *Value, into reflect.Value, tag reflect.StructTag) {
	if !v.IsScalar() || v.IsNull() {
		hint := ""
		if v.IsNull() {
			hint = "leave the key out for the default"
		}
		v.failf(hint, "want %s, got %s", wanted(into, tag), v.Shape())
		return
	}
	if words := strings.Fields(tag.Get("one")); len(words) > 0 && !slices.Contains(words, v.n.Value) {
		v.unknown(v.n.Value, words)
		return
	}
	fresh := reflect.New(into.Type()).Elem()
	if err := d.parse(v.n, fresh, tag); errors.Is(err, errWanted) {
		v.failf("", "want %s, got %s", wanted(into, tag), v.Shape())
		return
	} else if err != nil {
		v.failf("", "%v", err)
		return
	}
	if bound := d.outOfBounds(fresh, tag); bound != "" {
		v.failf("", "%s, got %s", bound, v.Shape())
		return
	}
	if is(tag, "file") {
		fresh.SetString(d.fileName(fresh.String()))
	}
	into.Set(fresh)
}

// wanted names what a value should be.
func wanted(into reflect.Value, tag reflect.StructTag) string {
	switch {
	case into.Type() == durationType:
		return "a duration such as 30s"
	case is(tag, "size"):
		return "a size such as 64KiB"
	case into.Addr().Type().Implements(textType):
		return "a single value"
	case into.Kind() == reflect.Bool:
		return "true or false"
	case tag.Get("off") != "":
		return "a whole number or off"
	case into.CanInt() || into.CanUint():
		return "a whole number"
	case into.CanFloat():
		return "a number"
	}
	return "text"
}

// errWanted says that a value is not of the kind that is wanted.
var errWanted = errors.New("invalid value")

func (d *Decoder) parse(n *yaml.Node, into reflect.Value, tag reflect.StructTag) error {
	text, number := n.Value, strings.ReplaceAll(n.Value, "_", "")
	switch u, ok := into.Addr().Interface().(encoding.TextUnmarshaler); {
	case ok:
		return u.UnmarshalText([]byte(text))
	case into.Type() == durationType:
		t, err := d.Duration(text)
		into.SetInt(int64(t))
		return err
	case is(tag, "size"):
		bytes, err := ParseSize(text)
		if into.CanUint() {
			into.SetUint(uint64(bytes))
		} else {
			into.SetInt(bytes)
		}
		return err
	case into.Kind() == reflect.String:
		if d.StrictText && n.ShortTag() != "!!str" {
			return errWanted
		}
		into.SetString(text)
	case into.Kind() == reflect.Bool:
		if n.ShortTag() != "!!bool" {
			return errWanted
		}
		into.SetBool(strings.EqualFold(text, "true"))
	case into.CanInt() && text == "off" && tag.Get("off") != "":
		x, err := strconv.ParseInt(tag.Get("off"), 10, 64)
		into.SetInt(x)
		return err
	case into.CanInt():
		x, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n.ShortTag() != "!!int" || into.OverflowInt(x) {
			return errWanted
		}
		into.SetInt(x)
	case into.CanUint():
		x, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n.ShortTag() != "!!int" || into.OverflowUint(x) {
			return errWanted
		}
		into.SetUint(x)
	case into.CanFloat():
		x, err := strconv.ParseFloat(number, 64)
		if t := n.ShortTag(); err != nil || t != "!!int" && t != "!!float" || math.IsNaN(x) || math.IsInf(x, 0) {
			return errWanted
		}
		into.SetFloat(x)
	default:
		panic(fmt.Sprintf("%s cannot be decoded", into.Type())) // a mistake in this program
	}
	return nil
}

// outOfBounds says what the tags allow if the value is something else.
func (d *Decoder) outOfBounds(v reflect.Value, tag reflect.StructTag) string {
	for _, b := range []struct {
		key, text string
		wrong     func(x, bound float64) bool
	}{
		{"above", "must be more than ", func(x, b float64) bool { return x <= b }},
		{"min", "must be at least ", func(x, b float64) bool { return x < b }},
		{"max", "must be at most ", func(x, b float64) bool { return x > b }},
	} {
		text := tag.Get(b.key)
		x, ok := number(v)
		if text == "" || !ok {
			continue
		}
		bound := reflect.New(v.Type()).Elem()
		if err := d.parse(&yaml.Node{Kind: yaml.ScalarNode, Value: text, Tag: "!!int"}, bound, tag); err != nil {
			panic(fmt.Sprintf("bound %q: %v", text, err)) // a mistake in this program
		}
		if most, _ := number(bound); b.wrong(x, most) {
			return b.text + text
		}
	}
	return ""
}

func number(v reflect.Value) (x float64, ok bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}
