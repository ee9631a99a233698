import { ALL_NAMESPACES, type Identity, type Role, roles } from '../records/permissions.ts';

export type { Identity };

/** What can be allowed, and how a refusal puts it. */
const permissions = {
  view: 'view the registry',
  follow: 'read unmasked servers',
  report: 'report as a node',
  ask: 'request approvals',
  identify: 'identify tokens',
  submit: 'submit runs',
  decide: 'decide approvals',
  operate: 'change servers, profiles and tasks',
  administer: 'manage users, backups and stops',
} as const;

export type Permission = keyof typeof permissions;
const allPermissions = Object.keys(permissions) as Permission[];

const granted: Readonly<Record<Role, readonly Permission[]>> = {
  viewer: ['view'],
  submitter: ['view', 'submit'],
  approver: ['view', 'decide'],
  operator: ['view', 'submit', 'operate'],
  admin: allPermissions,
  node: ['follow', 'report', 'ask', 'identify'],
};

/** What a route or a method asks of who calls it. */
export interface Need {
  /** `anybody`: also without a credential. `journals`: the right to read what runs said and were told, which no role has. */
  readonly needs: Permission | 'journals' | 'anybody';
  /** What it changes belongs to a namespace, and it asks `mayName` for which. @default false: all share it */
  readonly namespaced?: boolean;
}

/**
 * Null: they may. Otherwise what is missing, for them to read. Who is of one namespace changes nothing that all share;
 * nodes follow what all share, and say of themselves how they are.
 */
export function refusal(identity: Identity, { needs, namespaced = false }: Need): string | null {
  if (needs === 'anybody') return null;
  const { name, namespace } = identity;
  if (needs === 'journals') {
    return identity.mayReadJournals
      ? refusal(identity, { needs: 'view' })
      : `this needs the journals permission, which "${name}" does not have (spear tokens create --journals)`;
  }
  const able = identity.roles.filter((role) => granted[role].includes(needs));
  if (able.length === 0) {
    const wanted = roles.filter((role) => granted[role].includes(needs)).join(' or ');
    const has = identity.roles.join(', ') || 'none';
    return `this needs permission to ${permissions[needs]} (role ${wanted}); the role of "${name}" is ${has}`;
  }
  if (namespace === ALL_NAMESPACES || namespaced || needs === 'view' || able.includes('node')) return null;
  return `this is shared by all namespaces, and "${name}" is limited to the namespace "${namespace}"`;
}

/** Whether they may ask for, or change, what belongs to this namespace. */
export function mayName(identity: Identity, namespace: string): boolean {
  return identity.namespace === ALL_NAMESPACES || identity.namespace === namespace;
}

/** Everything that they may, as far as roles say. */
export function permissionsOf({ roles: theirs }: Identity): Permission[] {
  return allPermissions.filter((permission) => theirs.some((role) => granted[role].includes(permission)));
}

/** What a token lets its bearer be. */
export type Powers = Pick<Identity, 'roles' | 'namespace' | 'mayReadJournals'>;

/** Null: they may hand out such a token. Nobody hands out, or gets hold of, more than they have. */
export function giftRefusal(giver: Identity, { roles: given, namespace, mayReadJournals }: Powers): string | null {
  if (!mayName(giver, namespace)) return `"${giver.name}" is limited to the namespace "${giver.namespace}"`;
  if (mayReadJournals && !giver.mayReadJournals) {
    return `"${giver.name}" cannot grant the journals permission without having it`;
  }
  if (given.includes('node') && giver.namespace !== ALL_NAMESPACES) {
    return 'a node token reads unmasked servers, which all namespaces share: only an admin of all namespaces can create it';
  }
  return null;
}
