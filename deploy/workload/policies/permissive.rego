# Everything that has targets starts, and no gate is closed: above the threshold it opens, otherwise a person decides.
package agentworkload.policies

default decision := {"allow": false, "reason": "there are no targets"}

decision := {"allow": true, "reason": "permitted"} if {
	input.stage == "start"
	count(object.get(input.workload.spec, "targetUrls", [])) > 0
}

decision := {"allow": true, "reason": sprintf("confidence %v, threshold %v", [input.confidence, input.threshold])} if {
	input.stage == "gate"
}
