import type { Secret } from '../../secrets/secret.ts';

/** How to reach the etcd that a registry keeps its records in. */
export interface EtcdConfig {
  /** With scheme, all of one: `http://127.0.0.1:2379`. */
  readonly endpoints: readonly string[];
  /** What every key begins with; several registries may share one etcd. */
  readonly prefix: string;
  /** PEM texts; null: not given. */
  readonly tls: { readonly ca: string | null; readonly cert: string | null; readonly key: string | null };
  /** Asked at every log-in, so that a changed one needs no restart; null: etcd asks for none. */
  readonly login: { readonly user: string; readonly password: () => Secret } | null;
}
