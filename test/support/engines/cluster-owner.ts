// Starts one etcd, says its process id and waits to be killed.
import { startEtcd } from '../../../scripts/engines/etcd-cluster.ts';

const { members } = await startEtcd({ members: 1 });
process.send?.(members[0]?.pid);
setInterval(() => {}, 60_000);
