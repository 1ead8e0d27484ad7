// What an agent written with @kubernetes/client-node does first, as JSON.
import * as k8s from '@kubernetes/client-node';
import { Writable } from 'node:stream';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const out = {};

const pods = await core.listNamespacedPod({ namespace: 'shop' });
out.pods = pods.items.map((p) => p.metadata.name).sort();
const selected = await core.listNamespacedPod({ namespace: 'shop', labelSelector: 'app in (cart,checkout)' });
out.selected = selected.items.length;
const page = await core.listNamespacedPod({ namespace: 'shop', limit: 1 });
out.page = page.items.length;
out.continues = Boolean(page.metadata._continue);
const name = out.pods.find((n) => n.startsWith('frontend-'));
out.log = (await core.readNamespacedPodLog({ name, namespace: 'shop', tailLines: 2 })).trim().split('\n').length;
out.events = (await core.listNamespacedEvent({ namespace: 'shop', fieldSelector: 'type=Warning' })).items.length;

await new Promise((resolve, reject) => {
  const seen = { ADDED: 0, other: 0 };
  new k8s.Watch(config)
    .watch('/api/v1/namespaces/shop/pods', { timeoutSeconds: 1 }, (type, object) => {
      seen[type === 'ADDED' && object.kind === 'Pod' ? 'ADDED' : 'other']++;
    }, (err) => {
      out.watched = seen;
      err && err.message !== 'Aborted' && !/close/i.test(err.message) ? reject(err) : resolve();
    });
});

await new Promise((resolve, reject) => {
  const lines = [];
  const sink = new Writable({ write(chunk, _, done) { lines.push(String(chunk)); done(); } });
  new k8s.Log(config).log('shop', name, 'frontend', sink, { follow: true, tailLines: 1 }).then((controller) => {
    setTimeout(() => { controller.abort(); out.followed = lines.join('').trim().split('\n').length; resolve(); }, 500);
  }, reject);
});

try {
  await core.deleteNamespacedPod({ name, namespace: 'shop' });
  out.deleted = 200;
} catch (e) {
  out.deleted = e.code;
}
console.log(JSON.stringify(out));
