package order_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sloengine/sloengine/internal/order"
)

type row struct {
	key, place int
	text       [4]string
}

func byKey(a, b *row) int { return cmp.Compare(a.key, b.key) }

// The order is that of a stable sort of package slices.
func TestByIsAStableSort(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		list := make([]row, n)
		for i := range list {
			list[i] = row{random.IntN(1 + n/3), i, [4]string{"a"}}
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, func(a, b row) int { return byKey(&a, &b) })
		order.By(list, byKey)
		assert.Equal(t, want, list)
	}
}

func TestASortedListIsLeftWithoutAllocation(t *testing.T) {
	list := []row{{key: 1}, {key: 1, place: 1}, {key: 2}}
	assert.Zero(t, testing.AllocsPerRun(10, func() { order.By(list, byKey) }))
	order.By([]row(nil), byKey)
}
