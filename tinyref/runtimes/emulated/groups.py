"""The driver that runs the groups of an emulated GPU: LLVM IR, compiled once in a process.

`run_groups` runs a stretch of the groups of a launch. It poisons shared memory before each group
and checks the guards after it.
`tinyref_run_items` runs the work-items of a group as coroutines: each in turn runs to its next
barrier, until all are done; all must wait at the same one. Without frames it only asks for the size
of one.
`tinyref_touch` records an access in the cells of its elements, four words each: who wrote last and
in which epoch, who read and in which epoch. Readers are a work-item (1 and up), several of one
group (-1 - group), or of several groups (the smallest number): the rules of `interpret/shadow.py`.
The first fault is stored and ends the launch.
"""

from __future__ import annotations

from tinyref.renderers.llvm_gpu import RUN_ITEMS, TOUCH, FaultCode, Field, read_field

RUN_GROUPS = "tinyref_run_groups"
ENTRIES = (RUN_GROUPS, RUN_ITEMS, TOUCH)


def _read(*fields: Field) -> str:
    """Return instructions that load each field of the launch record as %field."""
    lines: list[str] = []
    for field in fields:
        kind = "ptr" if field in _ADDRESSES else "i64"
        lines += read_field(field, f"%{field.name.lower()}", kind)
    return "\n".join(lines)


def _addresses(*fields: Field) -> str:
    """Return instructions that compute the address of each field as %field.at."""
    return "\n".join(read_field(field, f"%{field.name.lower()}")[0] for field in fields)


_ADDRESSES = {Field.SHARED, Field.FRAMES, Field.POISON, Field.GUARDS, Field.MEMORIES}
_ADDRESSES.add(Field.SHARED_CELLS)
_MANY_GROUPS = -(2**63)
_DIVERGENCE, _UNINITIALISED = int(FaultCode.DIVERGENCE), int(FaultCode.UNINITIALISED)
_NOW = "i64 %me, i64 %group, i64 %size, i64 %epoch"

DRIVER = f"""
declare void @llvm.coro.resume(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @memcmp(ptr, ptr, i64)

; --- faults: only the first is kept ---------------------------------------------------------------

define internal void @fault(ptr %launch, i64 %kind, i64 %where, i64 %index, i64 %whom) {{
{_read(Field.FAULT, Field.ITEM)}
{_addresses(Field.FAULT_PLACE, Field.FAULT_POSITION, Field.FAULT_ITEM, Field.FAULT_OTHER)}
  %is.first = icmp eq i64 %fault, 0
  br i1 %is.first, label %keep, label %done
keep:
  store i64 %kind, ptr %fault.at
  store i64 %where, ptr %fault_place.at
  store i64 %index, ptr %fault_position.at
  store i64 %item, ptr %fault_item.at
  store i64 %whom, ptr %fault_other.at
  br label %done
done:
  ret void
}}

; --- groups ---------------------------------------------------------------------------------------

define void @{RUN_GROUPS}(ptr %launch, ptr %kernel, i64 %first, i64 %end) {{
entry:
{_read(Field.GRID_X, Field.GRID_Y, Field.GRID_Z, Field.IS_REVERSE)}
{_read(Field.SHARED, Field.POISON, Field.SHARED_BYTES, Field.SHARED_CELLS, Field.SHARED_CELL_BYTES)}
{_addresses(Field.GROUP_X, Field.GROUP_Y, Field.GROUP_Z, Field.EPOCH, Field.FAULT)}
  %plane = mul i64 %grid_x, %grid_y
  %total = mul i64 %plane, %grid_z
  %last = sub i64 %total, 1
  %is.reverse = icmp ne i64 %is_reverse, 0
  br label %group
group:
  %n = phi i64 [ %first, %entry ], [ %n.next, %next ]
  %mirrored = sub i64 %last, %n
  %number = select i1 %is.reverse, i64 %mirrored, i64 %n
  %z = udiv i64 %number, %plane
  %in.plane = urem i64 %number, %plane
  %y = udiv i64 %in.plane, %grid_x
  %x = urem i64 %in.plane, %grid_x
  store i64 %x, ptr %group_x.at
  store i64 %y, ptr %group_y.at
  store i64 %z, ptr %group_z.at
  store i64 0, ptr %epoch.at
  call void @llvm.memcpy.p0.p0.i64(ptr %shared, ptr %poison, i64 %shared_bytes, i1 false)
  call void @llvm.memset.p0.i64(ptr %shared_cells, i8 0, i64 %shared_cell_bytes, i1 false)
  call void %kernel(ptr %launch)
  call void @check_guards(ptr %launch)
  %n.next = add i64 %n, 1
  %fault = load i64, ptr %fault.at
  %is.well = icmp eq i64 %fault, 0
  br i1 %is.well, label %next, label %done
next:
  %more = icmp slt i64 %n.next, %end
  br i1 %more, label %group, label %done
done:
  ret void
}}

define internal void @check_guards(ptr %launch) {{
entry:
{_read(Field.SHARED, Field.POISON, Field.GUARDS, Field.GUARD_COUNT)}
  br label %head
head:
  %n = phi i64 [ 0, %entry ], [ %n.next, %next ]
  %more = icmp slt i64 %n, %guard_count
  br i1 %more, label %guard, label %done
guard:
  %pair = getelementptr [2 x i64], ptr %guards, i64 %n
  %second = getelementptr i64, ptr %pair, i64 1
  %begin = load i64, ptr %pair
  %end = load i64, ptr %second
  %bytes = sub i64 %end, %begin
  %now = getelementptr i8, ptr %shared, i64 %begin
  %before = getelementptr i8, ptr %poison, i64 %begin
  %differs = call i32 @memcmp(ptr %now, ptr %before, i64 %bytes)
  %is.whole = icmp eq i32 %differs, 0
  br i1 %is.whole, label %next, label %broken
broken:
  call void @fault(ptr %launch, i64 {int(FaultCode.GUARD)}, i64 %n, i64 0, i64 0)
  ret void
next:
  %n.next = add i64 %n, 1
  br label %head
done:
  ret void
}}

; --- work-items that wait -------------------------------------------------------------------------

define void @{RUN_ITEMS}(ptr %launch, ptr %start) {{
entry:
{_read(Field.ITEMS_X, Field.ITEMS_Y, Field.ITEMS_Z, Field.IS_REVERSE)}
{_read(Field.FRAMES, Field.FRAME_BYTES)}
{_addresses(Field.ITEM, Field.BARRIER, Field.EPOCH, Field.FAULT)}
  %plane = mul i64 %items_x, %items_y
  %total = mul i64 %plane, %items_z
  %last = sub i64 %total, 1
  %is.reverse = icmp ne i64 %is_reverse, 0
  %is.question = icmp eq ptr %frames, null
  br i1 %is.question, label %question, label %phase
question:
  %no.handle = call ptr %start(ptr %launch, ptr null, i32 0, i32 0, i32 0)
  ret void
phase:
  %epoch = phi i64 [ 0, %entry ], [ %epoch.next, %again ]
  %is.start = phi i1 [ true, %entry ], [ false, %again ]
  store i64 %epoch, ptr %epoch.at
  br label %turn
turn:
  %n = phi i64 [ 0, %phase ], [ %n.next, %agrees ]
  %expected = phi i64 [ 0, %phase ], [ %common, %agrees ]
  %mirrored = sub i64 %last, %n
  %item = select i1 %is.reverse, i64 %mirrored, i64 %n
  store i64 %item, ptr %item.at
  %offset = mul i64 %item, %frame_bytes
  %frame = getelementptr i8, ptr %frames, i64 %offset
  br i1 %is.start, label %begin, label %resume
begin:
  %z = udiv i64 %item, %plane
  %in.plane = urem i64 %item, %plane
  %y = udiv i64 %in.plane, %items_x
  %x = urem i64 %in.plane, %items_x
  %x.i32 = trunc i64 %x to i32
  %y.i32 = trunc i64 %y to i32
  %z.i32 = trunc i64 %z to i32
  %handle = call ptr %start(ptr %launch, ptr %frame, i32 %x.i32, i32 %y.i32, i32 %z.i32)
  br label %waits
resume:
  call void @llvm.coro.resume(ptr %frame)
  br label %waits
waits:
  %place = load i64, ptr %barrier.at
  %is.first = icmp eq i64 %n, 0
  %common = select i1 %is.first, i64 %place, i64 %expected
  %is.same = icmp eq i64 %place, %common
  br i1 %is.same, label %agrees, label %diverges
diverges:
  call void @fault(ptr %launch, i64 {_DIVERGENCE}, i64 %place, i64 %common, i64 0)
  ret void
agrees:
  %n.next = add i64 %n, 1
  %more = icmp slt i64 %n.next, %total
  br i1 %more, label %turn, label %all
all:
  %fault = load i64, ptr %fault.at
  %is.well = icmp eq i64 %fault, 0
  %is.waiting = icmp ne i64 %common, 0
  %goes.on = and i1 %is.well, %is.waiting
  br i1 %goes.on, label %again, label %done
again:
  ; a tile is no barrier: it orders no accesses
  %is.barrier = icmp sgt i64 %common, 0
  %passed = zext i1 %is.barrier to i64
  %epoch.next = add i64 %epoch, %passed
  br label %phase
done:
  ret void
}}

; --- checks of accesses ---------------------------------------------------------------------------

define i64 @{TOUCH}(ptr %launch, i64 %memory, i64 %index, i64 %lanes, i64 %writes, i64 %access) {{
entry:
{_read(Field.MEMORIES, Field.SHARED_CELLS, Field.SHARED_CELL_BYTES)}
  %record = getelementptr [3 x i64], ptr %memories, i64 %memory
  %per.at = getelementptr i64, ptr %record, i64 1
  %count.at = getelementptr i64, ptr %record, i64 2
  %cells = load ptr, ptr %record
  %per = load i64, ptr %per.at
  %count = load i64, ptr %count.at
  %last = sub i64 %count, %lanes
  %is.inside = icmp ule i64 %index, %last
  br i1 %is.inside, label %inside, label %outside
outside:
  call void @fault(ptr %launch, i64 {int(FaultCode.BOUNDS)}, i64 %access, i64 %index, i64 0)
  ret i64 0
inside:
  %rest = urem i64 %index, %lanes
  %is.aligned = icmp eq i64 %rest, 0
  br i1 %is.aligned, label %aligned, label %crooked
crooked:
  call void @fault(ptr %launch, i64 {int(FaultCode.ALIGNMENT)}, i64 %access, i64 %index, i64 0)
  ret i64 0
aligned:
  %cells.bits = ptrtoint ptr %cells to i64
  %shared.bits = ptrtoint ptr %shared_cells to i64
  %from.shared = sub i64 %cells.bits, %shared.bits
  %is.shared = icmp ult i64 %from.shared, %shared_cell_bytes
  %first = mul i64 %index, %per
  %span = mul i64 %lanes, %per
  br label %next
next:
  %n = phi i64 [ 0, %aligned ], [ %n.next, %free ]
  %number = add i64 %first, %n
  %cell = getelementptr [4 x i64], ptr %cells, i64 %number
  %writer = load i64, ptr %cell
  %is.unset = icmp eq i64 %writer, 0
  %is.read = icmp eq i64 %writes, 0
  %reads.unset = and i1 %is.unset, %is.read
  %is.stale = and i1 %reads.unset, %is.shared
  br i1 %is.stale, label %stale, label %meet
stale:
  %unset = udiv i64 %number, %per
  call void @fault(ptr %launch, i64 {_UNINITIALISED}, i64 %access, i64 %unset, i64 0)
  ret i64 %index
meet:
  %other = call i64 @meet(ptr %launch, ptr %cell, i64 %writes)
  %is.free = icmp eq i64 %other, 0
  br i1 %is.free, label %free, label %race
race:
  %race.at = udiv i64 %number, %per
  call void @fault(ptr %launch, i64 {int(FaultCode.RACE)}, i64 %access, i64 %race.at, i64 %other)
  ret i64 %index
free:
  %n.next = add i64 %n, 1
  %more = icmp slt i64 %n.next, %span
  br i1 %more, label %next, label %done
done:
  ret i64 %index
}}

; Notes an access in a cell; returns whom it races with, or 0.
define internal i64 @meet(ptr %launch, ptr %cell, i64 %writes) {{
entry:
{_read(Field.GRID_X, Field.GRID_Y, Field.GROUP_X, Field.GROUP_Y, Field.GROUP_Z)}
{_read(Field.ITEMS_X, Field.ITEMS_Y, Field.ITEMS_Z, Field.ITEM, Field.EPOCH)}
  %column = mul i64 %items_x, %items_y
  %size = mul i64 %column, %items_z
  %rows = mul i64 %group_z, %grid_y
  %row = add i64 %rows, %group_y
  %rows.x = mul i64 %row, %grid_x
  %group = add i64 %rows.x, %group_x
  %before.group = mul i64 %group, %size
  %from.zero = add i64 %before.group, %item
  %me = add i64 %from.zero, 1
  %writer.epoch.at = getelementptr i64, ptr %cell, i64 1
  %reader.at = getelementptr i64, ptr %cell, i64 2
  %reader.epoch.at = getelementptr i64, ptr %cell, i64 3
  %writer = load i64, ptr %cell
  %writer.epoch = load i64, ptr %writer.epoch.at
  %reader = load i64, ptr %reader.at
  %reader.epoch = load i64, ptr %reader.epoch.at
  %wrote = call i1 @conflicts(i64 %writer, i64 %writer.epoch, {_NOW})
  br i1 %wrote, label %meets.writer, label %no.writer
meets.writer:
  ret i64 %writer
no.writer:
  %is.write = icmp ne i64 %writes, 0
  br i1 %is.write, label %write, label %read
write:
  %was.read = call i1 @conflicts(i64 %reader, i64 %reader.epoch, {_NOW})
  br i1 %was.read, label %meets.reader, label %note.writer
meets.reader:
  ret i64 %reader
note.writer:
  store i64 %me, ptr %cell
  store i64 %epoch, ptr %writer.epoch.at
  ret i64 0
read:
  %is.none = icmp eq i64 %reader, 0
  %is.me = icmp eq i64 %reader, %me
  %is.many = icmp eq i64 %reader, {_MANY_GROUPS}
  %their.group = call i64 @group_of(i64 %reader, i64 %size)
  %is.own = icmp eq i64 %their.group, %group
  %is.earlier = icmp ne i64 %reader.epoch, %epoch
  %is.past = and i1 %is.own, %is.earlier
  %is.mine = or i1 %is.none, %is.me
  %is.alone = or i1 %is.mine, %is.past
  %minus.group = xor i64 %group, -1
  %with.others = select i1 %is.own, i64 %minus.group, i64 {_MANY_GROUPS}
  %joined = select i1 %is.alone, i64 %me, i64 %with.others
  %now = select i1 %is.many, i64 {_MANY_GROUPS}, i64 %joined
  store i64 %now, ptr %reader.at
  store i64 %epoch, ptr %reader.epoch.at
  ret i64 0
}}

; Whether somebody else touched an element, with no barrier between.
define internal i1 @conflicts(i64 %past, i64 %past.epoch, {_NOW}) {{
  %is.somebody = icmp ne i64 %past, 0
  %is.other = icmp ne i64 %past, %me
  %their.group = call i64 @group_of(i64 %past, i64 %size)
  %is.foreign = icmp ne i64 %their.group, %group
  %is.now = icmp eq i64 %past.epoch, %epoch
  %is.unordered = or i1 %is.foreign, %is.now
  %is.met = and i1 %is.somebody, %is.other
  %result = and i1 %is.met, %is.unordered
  ret i1 %result
}}

define internal i64 @group_of(i64 %who, i64 %size) {{
  %from.zero = sub i64 %who, 1
  %of.item = sdiv i64 %from.zero, %size
  %of.several = xor i64 %who, -1
  %is.item = icmp sgt i64 %who, 0
  %group = select i1 %is.item, i64 %of.item, i64 %of.several
  ret i64 %group
}}
"""
