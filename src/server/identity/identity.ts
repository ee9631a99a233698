import { ALL_NAMESPACES, type Identity, type Role, roles } from '../records/permissions.ts';

/** Permissions, with the text of a refusal. */
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

/** The permission that a route or gRPC method requires. */
export interface Need {
  /** `anybody`: no credential required. `journals`: the permission to read run journals, which no role includes. */
  readonly needs: Permission | 'journals' | 'anybody';
  /** The handler checks the namespace with `mayName`. @default false: the resource is shared by all namespaces */
  readonly namespaced?: boolean;
}

/**
 * Null: allowed. Otherwise the reason, for the caller. A caller that is limited to a namespace cannot change shared
 * resources; nodes may, because they report their own state.
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

/** Whether the identity may use resources of this namespace. */
export function mayName(identity: Identity, namespace: string): boolean {
  return identity.namespace === ALL_NAMESPACES || identity.namespace === namespace;
}

/** The permissions that the roles of an identity grant. */
export function permissionsOf({ roles: own }: Identity): Permission[] {
  return allPermissions.filter((permission) => own.some((role) => granted[role].includes(permission)));
}

/** What a token grants to its bearer. */
type TokenGrant = Pick<Identity, 'roles' | 'namespace' | 'mayReadJournals'>;

/** Null: the creator may issue such a token. A token cannot grant more than its creator has. */
export function issueRefusal(
  creator: Identity,
  { roles: granting, namespace, mayReadJournals }: TokenGrant,
): string | null {
  if (!mayName(creator, namespace)) return `"${creator.name}" is limited to the namespace "${creator.namespace}"`;
  if (mayReadJournals && !creator.mayReadJournals) {
    return `"${creator.name}" cannot grant the journals permission without having it`;
  }
  if (granting.includes('node') && creator.namespace !== ALL_NAMESPACES) {
    return 'a node token reads unmasked servers, which all namespaces share: only an admin of all namespaces can create it';
  }
  return null;
}
