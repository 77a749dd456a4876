// Package attribute declares what Prometheus and Alertmanager name of the package: see internal/unlinked/README.md.
package attribute

import "fmt"

// A KeyValue is an attribute without a value.
type KeyValue struct{}

// A Key is the name of an attribute.
type Key string

func (Key) String(string) KeyValue { return KeyValue{} }

func Bool(string, bool) KeyValue             { return KeyValue{} }
func Float64(string, float64) KeyValue       { return KeyValue{} }
func Int(string, int) KeyValue               { return KeyValue{} }
func Int64(string, int64) KeyValue           { return KeyValue{} }
func String(string, string) KeyValue         { return KeyValue{} }
func Stringer(string, fmt.Stringer) KeyValue { return KeyValue{} }
func StringSlice(string, []string) KeyValue  { return KeyValue{} }
