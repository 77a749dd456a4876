// Package order sorts lists of structs. The functions of package slices are compiled once for each type of element,
// 14 to 28 kB of the binary each; these are compiled once. It is for lists that are sorted a few times a second.
// Where events and requests are read, package slices sorts, which allocates nothing.
package order

import (
	"cmp"
	"slices"
)

// By sorts a list. Elements that compare as equal stay in their order.
func By[T any](list []T, compare func(a, b *T) int) {
	places := sorted(len(list), func(i, j int) int { return compare(&list[i], &list[j]) })
	if places == nil {
		return
	}
	out := make([]T, len(list))
	for i, at := range places {
		out[i] = list[at]
	}
	copy(list, out)
}

// sorted returns the order in which n elements are sorted, nil if they are already.
func sorted(n int, compare func(i, j int) int) []int {
	i := 1
	for i < n && compare(i-1, i) <= 0 {
		i++
	}
	if i >= n {
		return nil
	}
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(i, j int) int { return cmp.Or(compare(i, j), i-j) })
	return places
}
