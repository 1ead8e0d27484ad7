# What there is to look at in each shipped case, in the order in which one thing
# leads to the next, and what it comes to. Sourced by the scripted agents, which
# differ in how they go about it: they are for demonstrations and tests of scoring.

query=$(cat)

# step N runs the Nth look; it fails when there are no more.
step() {
	case $query in
	*"502 Bad Gateway"*)
		case $1 in
		1) kubectl logs -n shop deployment/frontend --tail 50 ;;
		2) kubectl logs -n shop deployment/cart --tail 50 ;;
		3) kubectl get pods -n shop -l app=cart ;;
		4) kubectl get service pricing -n shop ;;
		5) kubectl get deployment cart -n shop -o yaml ;;
		*) return 9 ;;
		esac ;;
	*"can't complete an order"*)
		case $1 in
		1) kubectl get pods -n shop ;;
		2) kubectl describe pods -n shop -l app=checkout ;;
		*) return 9 ;;
		esac ;;
	*"search works for a few seconds"*)
		case $1 in
		1) kubectl get pods -n shop -l app=search ;;
		2) kubectl describe pods -n shop -l app=search ;;
		3) kubectl logs -n shop deployment/search --previous ;;
		*) return 9 ;;
		esac ;;
	*"was slow this morning"*)
		case $1 in
		1) kubectl get nodes ;;
		2) kubectl get deployments -n shop ;;
		3) kubectl logs -n shop deployment/frontend --tail 50 ;;
		4) kubectl logs -n shop deployment/checkout ;;
		*) return 9 ;;
		esac ;;
	*) return 9 ;;
	esac
}

# answer prints the diagnosis.
answer() {
	case $query in
	*"502 Bad Gateway"*)
		cat <<-'JSON'
			{"component": "deployment/cart", "fault": "ServiceEnvVarAddressMismatch", "layer": "Application",
			 "commands": ["kubectl set env deployment/cart -n shop PRICING_URL=http://pricing.shop.svc.cluster.local/quote"]}
		JSON
		;;
	*"can't complete an order"*)
		echo '{"component": "deployment/checkout", "fault": "crash loop", "layer": "Application"}' ;;
	*"search works for a few seconds"*)
		cat <<-'JSON'
			{"component": "deployment/search", "fault": "OOMKilled", "layer": "Application",
			 "commands": ["kubectl set resources deployment/search -n shop --limits=memory=512Mi"]}
		JSON
		;;
	*"was slow this morning"*)
		echo '{"detected": false}' ;;
	esac
}
