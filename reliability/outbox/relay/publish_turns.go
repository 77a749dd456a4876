package relay

// inTurn publishes messages of a broker that may refuse one and take the next: a message waits until those before it
// with the same key are accepted, and is skipped if one of them is refused or skipped. Messages without a key do not
// wait.
func inTurn(batch []*Message, publish func(part []*Message) []Outcome) []Outcome {
	outcomes := make([]Outcome, len(batch))
	failed := map[string]bool{}
	left := make([]int, len(batch))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		taken := make(map[string]bool, len(left))
		var part []*Message
		var index, later []int
		for _, i := range left {
			switch key := batch[i].Key; {
			case failed[key]:
				outcomes[i].Skipped = true
			case taken[key]:
				later = append(later, i)
			default:
				taken[key] = key != ""
				part, index = append(part, batch[i]), append(index, i)
			}
		}
		if len(part) == 0 {
			break
		}
		for n, o := range publish(part) {
			outcomes[index[n]] = o
			if key := part[n].Key; (o.Err != nil || o.Skipped) && key != "" {
				failed[key] = true
			}
		}
		left = later
	}
	return outcomes
}
