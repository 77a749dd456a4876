package otlpwire_test

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

// fill sets random fields of m.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.Kind() == protoreflect.MessageKind && depth == 0 || rapid.IntRange(0, 3).Draw(t, "set") == 0 {
			continue
		}
		if o := f.ContainingOneof(); o != nil && rapid.IntRange(0, o.Fields().Len()).Draw(t, "oneof") > 1 {
			continue
		}
		if !f.IsList() {
			m.Set(f, value(t, m, f, depth))
			continue
		}
		for list := m.Mutable(f).List(); rapid.Bool().Draw(t, "more"); {
			list.Append(value(t, m, f, depth))
		}
	}
}

func value(t *rapid.T, m protoreflect.Message, f protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		v := m.NewField(f)
		if f.IsList() {
			v = v.List().NewElement()
		}
		fill(t, v.Message(), depth-1)
		return v
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.SampledFrom([]string{"", "exception", "exception.type", "service.name",
			"GET /é", "\"\\\n\u2028\U0001F600", rapid.String().Draw(t, "text")}).Draw(t, "text"))
	case protoreflect.BytesKind:
		n := rapid.SampledFrom([]int{0, 7, 8, 8, 8, 16, 16, 16}).Draw(t, "length")
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1),
			math.NaN(), rapid.Float64().Draw(t, "float")}).Draw(t, "float"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32Range(-1, 30).Draw(t, "enum")))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int"))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "int"))
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int"))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "int"))
	}
	panic(f.Kind().String())
}

// scrambled marshals m as no sender does and protobuf allows: fields in any order, submessages in several pieces,
// fields of no known number, packed numbers one by one.
func scrambled(t *rapid.T, m proto.Message) []byte {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return scramble(t, body, m.ProtoReflect().Descriptor())
}

func scramble(t *rapid.T, body []byte, m protoreflect.MessageDescriptor) []byte {
	var parts [][]byte
	for len(body) > 0 {
		number, wire, n := protowire.ConsumeField(body)
		part := body[:n]
		if f := m.Fields().ByNumber(number); f != nil && wire == protowire.BytesType {
			inside, _ := protowire.ConsumeBytes(body[protowire.SizeTag(number):])
			switch {
			case f.Kind() == protoreflect.MessageKind:
				part = nil
				inside = scramble(t, inside, f.Message())
				if first, _, size := protowire.ConsumeField(inside); first > 0 && !f.IsList() && rapid.Bool().Draw(t, "pieces") {
					part = protowire.AppendBytes(protowire.AppendTag(nil, number, wire), inside[:size])
					inside = inside[size:]
				}
				part = protowire.AppendBytes(protowire.AppendTag(part, number, wire), inside)
			case f.IsPacked() && (f.Kind() == protoreflect.Fixed64Kind || f.Kind() == protoreflect.DoubleKind) &&
				rapid.Bool().Draw(t, "unpacked"):
				part = nil
				for ; len(inside) > 0; inside = inside[8:] {
					part = append(protowire.AppendTag(part, number, protowire.Fixed64Type), inside[:8]...)
				}
			case f.IsPacked() && f.Kind() == protoreflect.Uint64Kind && rapid.Bool().Draw(t, "unpacked"):
				part = nil
				for len(inside) > 0 {
					v, n := protowire.ConsumeVarint(inside)
					part = protowire.AppendVarint(protowire.AppendTag(part, number, protowire.VarintType), v)
					inside = inside[n:]
				}
			}
		}
		parts = append(parts, part)
		body = body[n:]
	}
	if rapid.IntRange(0, 4).Draw(t, "unknown") == 0 {
		parts = append(parts, protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1),
			protowire.AppendGroup(protowire.AppendTag(nil, 2000, protowire.StartGroupType), 2000,
				protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("x"))))
	}
	var out []byte
	for _, part := range rapid.Permutation(parts).Draw(t, "order") {
		out = append(out, part...)
	}
	return out
}
