# A workload starts only with targets on the web and within bounds; a gate is closed on weak evidence. Where this allows a gate,
# the operator opens it by itself only above the threshold, and otherwise a person decides.
package agentworkload.policies

max_targets := 20

# Below this nobody is asked.
least := 0.5

default decision := {"allow": false, "reason": "neither start nor gate"}

decision := {"allow": count(problems) == 0, "reason": reason} if input.stage in {"start", "gate"}

reason := concat("; ", sort(problems)) if count(problems) > 0

reason := "targets are within bounds" if {
	count(problems) == 0
	input.stage == "start"
}

reason := sprintf("confidence %v is above %v", [input.confidence, input.threshold]) if {
	count(problems) == 0
	input.stage == "gate"
	input.confidence > input.threshold
}

reason := sprintf("confidence %v is not above %v: a person decides", [input.confidence, input.threshold]) if {
	count(problems) == 0
	input.stage == "gate"
	input.confidence <= input.threshold
}

targets := object.get(input.workload.spec, "targetUrls", [])

problems contains "there are no targets" if {
	input.stage == "start"
	count(targets) == 0
}

problems contains sprintf("%d targets, %d are allowed", [count(targets), max_targets]) if {
	input.stage == "start"
	count(targets) > max_targets
}

problems contains sprintf("target %s is not on the web", [url]) if {
	input.stage == "start"
	some url in targets
	not regex.match(`^https?://[^/@]+(/|$)`, url)
}

# The agents refuse these, too, whatever name leads to them; here nothing is started for them at all.
problems contains sprintf("target %s is not public", [url]) if {
	input.stage == "start"
	some url in targets
	regex.match(`^https?://(localhost|127\.|10\.|192\.168\.|172\.(1[6-9]|2[0-9]|3[01])\.|169\.254\.|0\.|\[)`, lower(url))
}

problems contains "there is no confidence" if {
	input.stage == "gate"
	not is_number(object.get(input, "confidence", null))
}

problems contains sprintf("confidence %v is below %v", [input.confidence, least]) if {
	input.stage == "gate"
	is_number(input.confidence)
	input.confidence < least
}

problems contains "no step said what it found" if {
	input.stage == "gate"
	count(object.get(input, "insights", [])) == 0
}
